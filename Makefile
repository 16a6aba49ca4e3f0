# make help lists the targets.

GO ?= go

# The race detector needs a C compiler.
RACE := $(if $(shell command -v $${CC:-cc} 2>/dev/null || command -v gcc 2>/dev/null),-race)
# make lint vets. Without a symbol table (-s) the tests link faster. Other work may starve a test for long, hence the timeout.
TEST ?= $(GO) test $(RACE) -vet=off -ldflags=-s -timeout 60m -shuffle=on
# A session of its own gets a fair share of the processor, however busy the other tests are, where there is setsid.
SESSION := $(shell setsid -fw true 2>/dev/null && echo setsid -fw sh $(CURDIR)/internal/session.sh)
# These directories are modules of their own: their requirements stay out of users' module graphs.
CONTRIB := $(wildcard contrib/*)
MODULES := . integration bench $(CONTRIB)
# The searches need no race detector: they have one goroutine, or fake time. The simulation plays some seeds with it all the same.
SEARCHES := ./quorum/model/... ./quorum/internal/lease ./quorum/internal/waiting ./spec
PACKAGES ?= $(shell $(GO) list ./... | grep -v -e /quorum/model -e /quorum/internal/lease -e /quorum/internal/waiting -e /scripts$$ -e /spec$$)
INTEGRATION ?= $(shell cd integration && $(GO) list ./... | grep -v -e /sim -e /chaos)
STRESS := $(GO) run -race=false golang.org/x/tools/cmd/stress@v0.52.0
CYCLONEDX := $(GO) run -race=false github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
NFPM := $(GO) run github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2
GOVULNCHECK := $(GO) run golang.org/x/vuln/cmd/govulncheck@v1.9.0
ACTIONLINT := $(GO) run -race=false github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
STATICCHECK := $(GO) run -race=false honnef.co/go/tools/cmd/staticcheck@v0.8.2

# Less garbage collection, a fifth less work for compilers and linters.
lint quick test flakes: export GOGC ?= 400
# Without directories in what is compiled, a fresh clone finds it in the cache. These clients are so large that to optimise
# them takes longer than their tests.
LARGE := github.com/redis github.com/valkey-io github.com/prometheus github.com/docker github.com/jackc google.golang.org go.etcd.io go.opentelemetry.io modernc.org
lint quick test flakes: export GOFLAGS := $(shell $(GO) env GOFLAGS) -trimpath $(LARGE:%='-gcflags=%/...=-N -l')

# GNU make 4 prints the output of each command in one piece.
PIECES := $(if $(filter output-sync,$(.FEATURES)),--output-sync=line)

# Tests of these packages wait for no real time, or little, and need no container.
QUICK := . ./clock/... ./fence ./inmemory ./internal/events ./internal/fakeredis ./internal/membership ./internal/pipeline ./internal/redisconn \
	./leader ./multilock ./quorum $(filter-out ./quorum/internal/lease,$(wildcard ./quorum/internal/*)) ./redlock ./scripts
# What make flakes runs unless FLAKES names others: the packages whose tests start processes, or wait in real time.
# Each has FLAKES_RUNS runs, 6 at a time, or as many as end within FLAKES_FOR. Each run of the chaos has masters and
# clients in processes of their own: these are 2 at a time. Meanwhile Linux does not group processes by session, where we
# may decide that: with groups, one kernel (6.18) let processes beside these wait for 27 s.
GROUPS := /proc/sys/kernel/sched_autogroup_enabled
FLAKES ?= $(filter-out . bench integration/sim%,$(sort $(patsubst %/,%,$(dir $(shell \
	git grep -lE 'testkit\.Real|redistest\.|clitest\.|time\.Sleep|testkit\.Eventually' -- '*_test.go')))))
FLAKES_FOR ?= 30m
FLAKES_RUNS ?= 30
FLAKES_TESTS ?= .

# The version of what make dist and make image make: a tag, or a commit after it.
VERSION ?= $(shell git describe --tags --match 'v*' --dirty 2>/dev/null || echo v0.0.0-g$$(git rev-parse --short HEAD 2>/dev/null || echo unknown))
IMAGE ?= ghcr.io/quorumlock/quorumlock

SERVERS := redis-server postgres mariadb prometheus etcd zsh fish spin

.PHONY: help demo quick test flakes chaos soak bench bench-check lint vuln api dist image dist-test release
.PHONY: tools $(SERVERS)
.PHONY: soak-lease soak-membership soak-semaphore soak-shell soak-spec soak-simulation soak-walks soak-servers soak-fuzz soak-mutants test-compile test-searches test-sim test-waiting test-packages test-integration test-bench test-modules
.PHONY: test-chaos test-chaos-containers test-chaos-masters test-chaos-paths

help: ## this list; the times are those of 2 idle cores and a warm build cache
	@awk -F ':.*## ' '/^[a-z -]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## the main job on five masters (under 40 s)
	$(GO) run ./cmd/quorumlock demo

quick: ## what needs no real time and no container, for the loop of a change (under 60 s)
	@test -z "$$(gofmt -l .)" || { echo "gofmt differs:"; gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) test -vet=off -ldflags=-s $(QUICK)
	cd integration && $(GO) test -vet=off -ldflags=-s -run TestSeeds ./sim -sim.seeds=20

test: ## all tests, with real redis-server processes (6 minutes); REDIS_SERVER=PATH tests on another server
	@$(if $(RACE),:,echo "no C compiler: testing without the race detector")
	@$(MAKE) --no-print-directory --jobs=2 $(PIECES) tools test-compile
	@$(MAKE) --no-print-directory --jobs=5 $(PIECES) test-searches test-sim test-waiting

flakes: redis-server ## tests again and again beside 4 processes that keep the cores busy, and which failed (100 minutes with RACE=; less: FLAKES="node quorum" FLAKES_RUNS=10 FLAKES_FOR=2m FLAKES_TESTS=TestX)
	@set -e; logs=$$(mktemp -d); groups=$$(cat $(GROUPS) 2>/dev/null || true); \
	trap 'test ! -w $(GROUPS) || echo $$groups >$(GROUPS); kill $$busy' EXIT; trap 'exit 1' INT TERM; \
	if [ -w $(GROUPS) ]; then echo 0 >$(GROUPS); fi; \
	for n in 1 2 3 4; do yes >/dev/null & busy="$$busy $$!"; done; \
	for package in $(FLAKES); do \
		tests='$(FLAKES_TESTS)' flags= copies=6; \
		if [ $$package = integration/chaos ]; then tests='$(SHORT_CHAOS)' flags='$(CHAOS_FLAGS) -chaos.backend=processes' copies=2; fi; \
		$(GO) test -C $$package -c $(RACE) -ldflags=-s -o $$logs/test .; \
		(cd $$package && timeout $(FLAKES_FOR) $(STRESS) -p $$copies -count $(FLAKES_RUNS) -o $$logs/$$(echo $$package | tr / -)- \
			$$logs/test -test.shuffle=on -test.run "$$tests" $$flags) >$$logs/said || true; \
		printf '%-42s %s\n' $$package "$$(grep -oE '[0-9]+ runs [a-z ]+, [0-9]+ failures' $$logs/said | tail -n 1)"; \
	done; \
	rm $$logs/test $$logs/said; echo "failures, by $$logs:"; grep -rhE '^ *--- FAIL|^panic:|^fatal error:|DATA RACE' $$logs | sed 's/ (.*//' | sort | uniq -c | sort -rn; \
	! ls $$logs | grep -q .

# Commands that begin together compile what they share once for each: the largest without the race detector are compiled first.
test-compile:
	@$(GO) list -test -export $(SEARCHES) >/dev/null
	@cd integration && $(GO) list -test -export ./sim ./chaos >/dev/null

# These keep a processor busy, and measure no time: they run beside all else, at the lowest priority.
# What has no race detector here is not shuffled, so that go test caches it.
LAST := nice -n 19 $(SESSION)
test-searches:
	$(LAST) $(GO) test -vet=off -ldflags=-s -timeout 60m $(SEARCHES)

test-sim:
	$(LAST) sh -c "cd integration && $(GO) test -vet=off -ldflags=-s -timeout 60m ./sim"
	$(if $(RACE),$(LAST) sh -c "cd integration && $(TEST) -run TestSeeds ./sim -sim.seeds=8")

# These are idle half of the time, so some run beside each other, and so do their parallel tests. More at a time would end no
# sooner, and stand still for seconds.
test-waiting: test-integration test-chaos test-modules test-bench

test-integration:
	cd integration && $(TEST) -p 2 -parallel 4 $(INTEGRATION)

# Package scripts starts no goroutine: it needs no race detector.
test-packages:
	$(TEST) -p 2 -parallel 4 $(PACKAGES)
	$(GO) test -vet=off -shuffle=on ./scripts

test-bench:
	cd bench && $(TEST) ./...

test-modules: $(CONTRIB:contrib/%=test-contrib-%)

CONTRIB_TESTS := $(filter-out test-contrib-quorumchaos,$(CONTRIB:contrib/%=test-contrib-%))
test-contrib-quorumvet: RACE := # it starts no goroutine
$(CONTRIB_TESTS): test-contrib-%: test-packages
	cd contrib/$* && $(TEST) ./...

# The longest of them starts at once. Its masters are containers.
test-contrib-quorumchaos:
	cd contrib/quorumchaos && $(TEST) $(FIRST) ./...

# Every change has to pass these scenarios with faults; make chaos plays all of them, with the race detector in the clients
# too. Beside other tests a master can answer late, hence longer times, and sessions of their own. Processes cost half the
# processor time of containers; without the race detector clients cost half, too, and so do the paths to masters, which have
# it in the tests of quorumchaos.
test-chaos-%: RACE :=
CHAOS_FLAGS := -chaos.stretch=2 -chaos.race=false
CHAOS = $(TEST) $(FIRST) ./chaos $(CHAOS_FLAGS)
SHORT_CHAOS := TestPictures|TestChaos/(majority|rolling|a_live_master|partition_of_the_holder|frozen|client_paused|failover:_each)
# They measure time, and are idle most of it: where we may, they get the processor before all else. Their compilers and
# linkers do not: other tests stood still for 5 s meanwhile.
FIRST := -exec '$(if $(shell nice -n -10 true 2>&1),,nice -n -10 )$(SESSION)'
test-chaos: test-chaos-containers test-chaos-masters test-chaos-paths

test-chaos-containers test-chaos-masters test-chaos-paths test-sim test-searches: | test-compile

test-chaos-containers:
	cd integration && $(CHAOS) -run 'TestChaos/restart_amnesia'

test-chaos-masters:
	cd integration && $(CHAOS) -chaos.backend=processes -run 'TestChaos/(majority|minority_killed|rolling|a_live_master)'

test-chaos-paths:
	cd integration && $(CHAOS) -chaos.backend=processes -run 'TestPictures|TestChaos/(random_walk|partition_of_the_holder|frozen|client_paused|failover:_each)'

# Masters are containers where there is a container engine, else processes. The report says which. Those that fail over are
# processes, and have a report of their own.
FAILOVERS := '^Test(Chaos|Controls)$$/^failover:'
# Before the first report is written, which would make the tree dirty.
chaos: REVISION := $(shell git describe --always --dirty 2>/dev/null)
chaos: redis-server ## every scenario with faults on 3 and on 5 masters, and the controls; writes docs/reports/chaos* and docs/reports/failovers.md (45 minutes)
	cd integration && $(GO) test $(RACE) -timeout 60m -v ./chaos -chaos.full -skip $(FAILOVERS) -chaos.report=$(CURDIR)/docs/reports/chaos.md \
		-chaos.pair=$(CURDIR)/docs/reports -chaos.revision=$(REVISION)
	cd integration && $(GO) test $(RACE) -timeout 60m -v ./chaos -chaos.full -run $(FAILOVERS) -chaos.report=$(CURDIR)/docs/reports/failovers.md \
		-chaos.revision=$(REVISION)

# These take too long for every change: deeper searches (an hour or two each, some GB), many seeds of the simulation,
# five minutes of each random walk, fuzzing, and what no test notices when it is left out.
# PARTS hides that it is make, so that make -n soak writes no report.
PARTS = $(MAKE) --no-print-directory --keep-going $(SOAK:%=soak-%)
SOAK ?= lease membership semaphore shell spec simulation walks servers fuzz mutants
soak: redis-server ## the same claims, for hours; writes docs/reports/soak.md; a part: SOAK="walks fuzz", two at a time on two cores
	@report=docs/reports/soak.md; $(PARTS) 2>&1 | tee /dev/stderr | \
	awk -f docs/soak.awk -v old=$$report -v date="$$(date -u '+%F %H:%M')" -v revision="$$(git describe --always --dirty)" \
		-v machine="$$(nproc) cores, $$($(GO) version | cut -d ' ' -f 3-)" >$$report.new; failed=$$?; mv $$report.new $$report; exit $$failed

soak-lease soak-membership soak-semaphore soak-shell: soak-%:
	$(GO) test -timeout 5h -v -run 'TestProtocol|TestSearch|TestSetupsOfMutants' ./quorum/$(if $(filter lease,$*),internal,model)/$* -model.deep
soak-spec:
	sh spec/run.sh || test $$? = 3 # without spin it says so
soak-simulation:
	cd integration && GOGC=400 $(GO) test -timeout 5h ./sim -sim.seeds=20000 -sim.semaphores=5000 -sim.readers=5000 -sim.handovers=5000 -sim.lists=5000 -sim.crowds=5000 -sim.replays=200
soak-walks:
	cd integration && $(GO) test $(RACE) -timeout 60m -v ./chaos -run 'TestChaos/(random walk|walk of two operators|failover: walk|failover: wild walk|failover: two replicas, wild walk)' -chaos.full -chaos.walk=5m
soak-servers:
	$(GO) test -timeout 90m -v -run TestDifferential ./internal/fakeredis -differential.steps=1000000
# An input that finds new code is made smaller for at most a second: for 60, the default, nothing else is tried.
FUZZ := $(GO) test -run '^$$' -fuzzminimizetime 1s -fuzz
soak-fuzz:
	$(FUZZ) FuzzParse -fuzztime 5m ./scripts
	$(FUZZ) FuzzNames -fuzztime 2m ./scripts
	$(FUZZ) FuzzCanonical -fuzztime 1m ./scripts
	$(FUZZ) FuzzReplies -fuzztime 5m ./node
	$(FUZZ) FuzzURL -fuzztime 2m ./node
	$(FUZZ) FuzzMessages -fuzztime 2m ./internal/pubsub
soak-mutants:
	nice -n 19 $(GO) run ./internal/mutants -for 90m

BENCH := $(GO) test -run '^$$' -bench . -benchtime 120ms -timeout 60m
# A missed budget fails nothing, because other work on the machine may cause it. The report says which budgets are met.
bench: redis-server etcd postgres ## the library compared with other locks and its budgets; writes docs/reports/bench.md, and the figures of README.md (7 minutes)
	cd bench && $(BENCH) | tee /dev/stderr | $(GO) run . -report .. -revision "$$(git describe --always --dirty)"

bench-check: redis-server ## the budgets alone; fails where one is missed by more than its tolerance (3 minutes)
	cd bench && $(BENCH) -check | $(GO) run .

# Without one of these, the tests that need it are skipped, and say so: without postgres and mariadb those of package fence,
# without prometheus those of the alerts and the dashboard, without etcd the measurements beside it, without zsh and fish
# those of their completion, without spin the search of spec.
# One at a time: a package manager has one lock.
tools: ## installs what the tests use, where it can (1 s; 80 s where nothing is installed)
	@set -e; for server in $(SERVERS); do sh internal/redistest/install.sh $$server; done

$(SERVERS):
	@sh internal/redistest/install.sh $@

api: ## what the public packages export; writes docs/api.txt (3 s)
	GO=$(GO) sh docs/api.sh >docs/api.txt

# With the race detector on, what they compile is what make test needs. The root module comes first: all need what it compiles.
lint: export GOFLAGS += $(RACE)
lint: ## gofmt, go vet and staticcheck on all modules, actionlint on the workflows, docs/api.txt (1 minute; 5 with empty caches)
	@test -z "$$(gofmt -l .)" || { echo "gofmt differs:"; gofmt -l .; exit 1; }
	$(GO) mod tidy -diff # of users' module graph alone: elsewhere it downloads what tests of requirements need
	$(GO) vet ./... && $(STATICCHECK) ./...
	@printf '%s\n' $(filter-out .,$(MODULES)) | xargs -P 2 -I {} sh -xc 'cd {} && $(GO) vet ./... && $(STATICCHECK) ./...'
	$(ACTIONLINT) .github/workflows/*.yaml
	@GO=$(GO) sh docs/api.sh | diff docs/api.txt - || { echo "docs/api.txt differs: if the change is meant, run make api, and tell users in CHANGELOG.md"; exit 1; }
	@! grep -n $(patsubst %,-e '\<%\.',scripts $(notdir $(wildcard internal/* quorum/internal/* contrib/*/internal/*))) docs/api.txt || { echo "exported, and no program can import its package"; exit 1; }

vuln: ## known vulnerabilities in what the modules use, by the database of vuln.go.dev
	@set -e; for module in $(MODULES); do (cd $$module; set -x; $(GOVULNCHECK) ./...); done

# Programs with the library compile for more: where an int has 32 bits, and for Windows.
dist: ## the command for a release, in dist/: static binaries, deb, rpm, manual, an SBOM of each binary, checksums (10 s; 4 minutes with empty caches); VERSION=v0.1.0
	rm -rf dist && mkdir dist
	set -e; for target in linux-amd64 linux-arm64 darwin-arm64; do \
		CGO_ENABLED=0 GOOS=$${target%-*} GOARCH=$${target#*-} $(GO) build -trimpath -ldflags "-s -w -X main.stamp=$(VERSION)" \
			-o dist/quorumlock-$$target ./cmd/quorumlock; done
	set -e; for target in linux-386 windows-amd64; do CGO_ENABLED=0 GOOS=$${target%-*} GOARCH=$${target#*-} $(GO) build ./...; done
	cp NOTICE dist/
	GO=$(GO) sh packaging/licenses.sh linux-amd64 linux-arm64 darwin-arm64 >dist/LICENSES
	$(GO) run -ldflags "-X main.stamp=$(VERSION)" ./cmd/quorumlock man | gzip -9n >dist/quorumlock.1.gz
	set -e; for target in linux-amd64 linux-arm64 darwin-arm64; do \
		$(CYCLONEDX) bin -json -std -short-purls -noserial -notimestamp -version $(VERSION) -output dist/quorumlock-$$target.cdx.json dist/quorumlock-$$target; done
	set -e; export SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct); for arch in amd64 arm64; do for kind in deb rpm; do \
		ARCH=$$arch VERSION=$(VERSION) $(NFPM) package -f packaging/nfpm.yaml -p $$kind -t dist/; done; done
	cd dist && sha256sum * >SHA256SUMS

image: ## an image of dist/'s binary, for this machine's engine (under 5 s)
	docker build -f packaging/Dockerfile --build-arg TARGETARCH=$$($(GO) env GOARCH) -t $(IMAGE):$(VERSION:v%=%) dist

dist-test: dist image redis-server ## what make dist, make image and make release make, installed and run (2 minutes)
	cd integration && $(GO) test -v ./dist -dist.dir=$(CURDIR)/dist -dist.version=$(VERSION) -dist.image=$(IMAGE):$(VERSION:v%=%)

release: ## the commit and tags of a release, of all modules, installed as users install them; pushes nothing (under a minute); VERSION=v0.1.0
	@sh packaging/release.sh $(VERSION)
