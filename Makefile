# The commands that one types. What they do stands in .ci/ and in `uproar-loadtest`.

PORT ?= 8080
PHONES ?= 50
KILL ?=
# One profile for all but releases: dependencies are compiled once.
PROFILE := ci
PROGRAMS := $(or $(CARGO_TARGET_DIR),target)/$(PROFILE)

.DEFAULT_GOAL := help
.PHONY: help demo test smoke idle build install-demo install-test

help: ## Lists the commands
	@echo "Uproar: every phone in the room reacts at once."
	@echo
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | while IFS='|' read -r name what; do printf '%-20s %s\n' "$$name" "$$what"; done
	@echo
	@echo "  PORT=8080     where phones connect to the demo"
	@echo "  PHONES=50     how many simulated phones tap in the demo"
	@echo "  KILL=         whom smoke kills in the middle: gateway, aggregator, persister or redis-master"

demo: install-demo build ## Runs everything on this machine, with a page to tap on, until Ctrl-C
	@exec $(PROGRAMS)/uproar-loadtest demo --port $(PORT) --phones $(PHONES)

test: install-test ## Checks everything: format, lints, tests, smoke with kills, pages in a browser
	@.ci/test

smoke: install-demo build ## Has 300 phones tap and compares all counts; KILL= kills one in the middle
	@exec $(PROGRAMS)/uproar-loadtest smoke $(if $(KILL),--kill $(KILL))

idle: install-demo build ## Measures the gateway's memory per idle phone
	@exec $(PROGRAMS)/uproar-loadtest idle

build: ## Builds all programs
	cargo build --profile $(PROFILE) --workspace --bins

install-demo: ## Installs what demo and smoke need from the system's packages
	@.ci/install demo

install-test: ## Installs what test needs from the system's packages
	@.ci/install test
