package s3store

import (
	"path/filepath"
	"testing"

	"github.com/aws/smithy-go/logging"
)

// The program's log has one form; the SDK's lines have another, and nobody asked for them.
func TestClientWritesNoLinesOfItsOwn(t *testing.T) {
	for _, name := range []string{"AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"} {
		t.Setenv(name, filepath.Join(t.TempDir(), "none"))
	}
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	for name, c := range map[string]Config{
		"AccessKey": {AccessKey: "a", SecretKey: "b"},
		"AWSsChain": {Region: "eu-central-1"},
	} {
		t.Run(name, func(t *testing.T) {
			c = c.withDefaults()
			client, err := newClient(t.Context(), c, newHTTP(c))
			if err != nil {
				t.Fatal(err)
			}
			if l := client.Options().Logger; l != (logging.Nop{}) {
				t.Errorf("it writes to %T", l)
			}
		})
	}
}
