package deploy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/awsmp/metering/internal/standin"
	"github.com/awsmp/metering/internal/template"
)

// motoAccount is the account that moto is.
const motoAccount = "123456789012"

// cloud is moto in place of an AWS account: asked by the AWS CLI, and by requests in the protocols of the services. An SDK would refuse some of
// what moto answers, such as a number in the environment of a function.
type cloud struct{ endpoint string }

// newCloud starts moto. Where it or the AWS CLI is missing the test is skipped; in continuous integration it fails.
func newCloud(t *testing.T) cloud {
	t.Helper()
	// The AWS CLI puts a bucket's name before the host of its address, which an address in numbers does not take.
	c := cloud{strings.Replace(standin.Moto(t), "127.0.0.1", "localhost", 1)}
	if _, err := exec.LookPath("aws"); err != nil {
		const hint = "the AWS CLI is not installed. Try: pip install awscli"
		if os.Getenv("CI") != "" {
			t.Fatal(hint)
		}
		t.Skip(hint)
	}
	return c
}

// cli runs the AWS CLI in a folder, without any AWS settings of the machine's own.
func (c cloud) cli(ctx context.Context, folder string, args ...string) error {
	cmd := exec.CommandContext(ctx, "aws", args...)
	cmd.Dir = folder
	own := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "AWS_") })
	cmd.Env = append(own, "AWS_ENDPOINT_URL="+c.endpoint, "AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE", "AWS_SECRET_ACCESS_KEY=invented", "AWS_DEFAULT_REGION="+standin.Region,
		"AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null", "AWS_PAGER=", "NO_PROXY=localhost", "no_proxy=localhost")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("aws %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// motoAnswer is what a service answers, as JSON holds it.
type motoAnswer map[string]any

// get is what stands below a path of keys and list indexes, or nil.
func (a motoAnswer) get(path ...string) any { return template.Resource{Properties: a}.Get(path...) }

// text is get where it is text.
func (a motoAnswer) text(path ...string) string { s, _ := a.get(path...).(string); return s }

// list is get where it is a list of maps.
func (a motoAnswer) list(path ...string) []motoAnswer {
	var list []motoAnswer
	items, _ := a.get(path...).([]any)
	for _, item := range items {
		if m, ok := item.(map[string]any); ok {
			list = append(list, m)
		}
	}
	return list
}

// query asks a service that takes forms. moto answers in JSON where it is asked to, below names made of the action's.
func (c cloud) query(service, action string, parameters ...string) (motoAnswer, error) {
	form := url.Values{"Action": {action}, "ContentType": {"JSON"}}
	for i := 0; i < len(parameters); i += 2 {
		form.Set(parameters[i], parameters[i+1])
	}
	a, err := c.send(service, http.MethodPost, "/", "application/x-www-form-urlencoded", "", form.Encode())
	if err != nil {
		return nil, fmt.Errorf("%s %v: %w", action, parameters, err)
	}
	result, _ := a.get(action+"Response", action+"Result").(map[string]any)
	return result, nil
}

// call asks a service that takes JSON and the operation's name in a header.
func (c cloud) call(service, target string, input any) (motoAnswer, error) {
	body, err := json.Marshal(input)
	if err != nil {
		return nil, err
	}
	a, err := c.send(service, http.MethodPost, "/", "application/x-amz-json-1.1", target, string(body))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", target, body, err)
	}
	return a, nil
}

// fetch asks a service that has paths.
func (c cloud) fetch(service, path string) (motoAnswer, error) {
	return c.send(service, http.MethodGet, path, "", "", "")
}

// send asks a service. moto tells services apart by the scope of the credentials, and checks no signature.
func (c cloud) send(service, method, path, kind, target, body string) (motoAnswer, error) {
	r, err := http.NewRequest(method, c.endpoint+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20260101/"+standin.Region+"/"+service+"/aws4_request, SignedHeaders=host, Signature=0")
	for name, value := range map[string]string{"Content-Type": kind, "X-Amz-Target": target} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return nil, fmt.Errorf("%s %s of %s: %s: %s", method, path, service, resp.Status, text)
	}
	var a motoAnswer
	// What moto answers to some queries is XML whatever it is asked for, and nobody here reads that.
	if err := json.Unmarshal(text, &a); err != nil && !strings.HasPrefix(string(text), "<") {
		return nil, fmt.Errorf("%s %s of %s: %w in %s", method, path, service, err, text)
	}
	return a, nil
}
