package fence

import (
	"fmt"
	"strconv"
)

// Token is a fencing token: a positive integer of at most 15 digits, so that JSON numbers, JavaScript and
// RFC 9651 integers carry it exactly. The zero Token is no token: the mark of a resource never written.
type Token int64

const (
	// MaxToken is the largest token.
	MaxToken Token = 999_999_999_999_999
	// BlockSize is the number of tokens in a block. Block n is n·BlockSize … n·BlockSize+BlockSize-1, n ≥ 1.
	BlockSize = 1000

	maxTokenDigits = len("999999999999999")
)

// ParseToken reads a token in its only accepted form: [1-9][0-9]{0,14}. Signs, spaces, leading zeros, exponents
// and lists are refused, so that one number has one spelling.
func ParseToken(s string) (Token, error) {
	if s == "" || len(s) > maxTokenDigits || s[0] == '0' {
		return 0, errToken(s)
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, errToken(s)
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, errToken(s)
	}
	return Token(n), nil
}

func errToken(s string) error {
	const shown = 40
	if len(s) > shown {
		s = s[:shown] + "…"
	}
	return Errorf(CodeInvalidToken, "a token is 1 to 15 digits without a leading zero, got %q", s)
}

// String returns the token's decimal digits.
func (t Token) String() string { return strconv.FormatInt(int64(t), 10) }

// Valid reports whether t is a token that a grant could have issued.
func (t Token) Valid() bool { return t > 0 && t <= MaxToken }

// Block is a run of tokens, both ends included.
type Block struct{ First, Last Token }

// MarshalJSON renders the block as [first,last].
func (b Block) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "[%d,%d]", b.First, b.Last), nil
}

// UnmarshalJSON reads [first,last].
func (b *Block) UnmarshalJSON(p []byte) error {
	if _, err := fmt.Sscanf(string(p), "[%d,%d]", &b.First, &b.Last); err != nil {
		return fmt.Errorf("a block is [first,last], got %s: %w", p, err)
	}
	return nil
}

// Has reports whether t lies in the block.
func (b Block) Has(t Token) bool { return b.First <= t && t <= b.Last }
