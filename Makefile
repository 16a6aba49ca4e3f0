# make demo   the main job on five masters, in under 40 s
# make test   all tests, with real redis-server processes
# make lint   what .ci/run checks besides

GO ?= go

# The race detector needs a C compiler.
RACE := $(if $(shell command -v $${CC:-cc} 2>/dev/null || command -v gcc 2>/dev/null),-race)
TEST ?= $(GO) test $(RACE) -shuffle=on
PACKAGES ?= ./...

.PHONY: demo test lint redis-server

demo:
	$(GO) run ./cmd/quorumlock demo

test: redis-server
	@$(if $(RACE),:,echo "no C compiler: testing without the race detector")
	$(TEST) $(PACKAGES)

# Real servers are wanted, not needed: the tests that must have them say so when they are skipped.
redis-server:
	@sh integration/install-redis.sh

lint:
	@test -z "$$(gofmt -l .)" || { echo "gofmt differs:"; gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...
