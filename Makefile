# make demo    play the shipped example: usage in, billed revenue out, the books balanced
# make test    everything that must hold, as in continuous integration
# make package the Lambda functions as one zip file, dist/awsmp-bootstrap.zip
# make bench   the figures of docs/performance.md
# make lint    formatting and static checks alone

GO ?= go

.PHONY: demo test bench lint build package clean

demo:
	@$(GO) run ./cmd/awsmp demo

build:
	$(GO) build -trimpath -o bin/awsmp ./cmd/awsmp

package:
	@scripts/package.sh

test:
	@scripts/test.sh

lint:
	@scripts/lint.sh

bench:
	@scripts/bench.sh

clean:
	rm -rf bin dist
