package stores_test

import (
	"encoding/hex"
	"testing"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores"
)

// The check values of the catalogues: the checksums of "123456789".
func TestChecksumsOfAClient(t *testing.T) {
	decode := func(text string) []byte {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	md5, crc32c, crc64nvme := decode("25f9e794323b453885f5181f1b624d0b"), decode("e3069283"), decode("ae8b14860a799888")
	sha256 := decode("15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225")
	o, l := objects(t, newLedger(), newMemory(), stores.ObjectsConfig{}), fence.Token(1000)
	for i, c := range []struct {
		set  func(*fence.ObjectWrite)
		want fence.Code
	}{
		{func(w *fence.ObjectWrite) { w.MD5, w.CRC32C, w.CRC64NVME, w.SHA256 = md5, crc32c, crc64nvme, sha256 }, fence.CodeAccepted},
		{func(w *fence.ObjectWrite) { w.CRC32C = decode("e3069284") }, fence.CodeChecksumMismatch},
		{func(w *fence.ObjectWrite) { w.CRC64NVME = decode("ae8b14860a799889") }, fence.CodeChecksumMismatch},
		{func(w *fence.ObjectWrite) { w.MD5 = decode("25f9e794323b453885f5181f1b624d0c") }, fence.CodeChecksumMismatch},
		{func(w *fence.ObjectWrite) {
			w.SHA256 = decode("15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb226")
		}, fence.CodeChecksumMismatch},
		{func(w *fence.ObjectWrite) { w.CRC32C = crc64nvme }, fence.CodeInvalidRequest},
		{func(w *fence.ObjectWrite) { w.CRC64NVME = crc32c }, fence.CodeInvalidRequest},
		{func(w *fence.ObjectWrite) { w.MD5 = crc32c }, fence.CodeInvalidRequest},
		{func(w *fence.ObjectWrite) { w.SHA256 = md5 }, fence.CodeInvalidRequest},
	} {
		w := put(l+fence.Token(i), "123456789")
		c.set(&w)
		if _, err := o.WriteObject(t.Context(), w); fence.CodeOf(err) != c.want {
			t.Errorf("%d: %v, want %q", i, err, c.want)
		}
	}
	if content(t, o) != "123456789" {
		t.Error(content(t, o))
	}
}
