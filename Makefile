# Every target sets itself up; `make test` is what CI runs.
.PHONY: test test-gpu skipped-gpu check python wheel package test-peers demo live-demo docs bench bench-encode browser golden golden-peers golden-encoders fuzz expected fixtures clean

test: check
	cargo test --workspace --lib --bins --tests
	cargo test --workspace --doc
	$(MAKE) skipped-gpu
	$(MAKE) browser
	$(MAKE) python
	$(MAKE) package

# What takes seconds comes first: formatting, and wording that the style does not allow. Clippy and documentation use the same compiled
# dependencies.
check:
	cargo fmt --all --check
	python3 tools/old_words.py --suffix .md .rs .py .html .toml .js
	cargo clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items

# The engine on an NVIDIA GPU, from a prebuilt program if GPU_TESTS names one. Without a GPU, one line says why it is skipped.
GPU_TESTS := cargo test --quiet --package modelmix-cuda --test gpu --
test-gpu:
	@$(GPU_TESTS) --test-threads=1 --nocapture

# What `make test` says about them.
skipped-gpu:
	@cargo test --quiet --workspace --test gpu -- --nocapture t0_describes_itself | grep -e '^skipped' -e '^cuda, ' | sed 's/^skipped/GPU tests are skipped/'

demo:
	cargo run --release --quiet --package modelmix-cli -- demo

# Five generators of the repository as live arms, with the encoder in the same process. Another call goes on or shows the end.
live-demo:
	cargo run --release --quiet --package modelmix-cli -- run examples/live/fashion.toml --dir modelmix-live-demo --resume --html modelmix-live-demo.html

docs:
	cargo doc --workspace --no-deps

# Peers side by side, in one sitting; keeps the run in benches/runs. The peers' packages take some gigabytes.
bench: .venv-bench/ready target/python/ready
	$(PYTHON) tools/build_wheel.py
	cargo build --release --example bench
	$(PYTHON) benches/python.py
	.venv-bench/bin/python benches/peers.py
	.venv-bench/bin/python benches/metrics.py

# From image files to features. WEIGHTS is the FID Inception as TorchScript: inception-2015-12-05.pt.
bench-encode: .venv-peers/ready
	cargo build --release --package modelmix-cli --bin modelmix
	cargo build --release --package modelmix-encode --example prepare --example model_speed
	.venv-peers/bin/python benches/encode.py $(WEIGHTS)

.venv-bench/ready: benches/requirements.txt
	python3 -m venv .venv-bench
	.venv-bench/bin/pip install --quiet --requirement benches/requirements.txt
	touch $@

# Reports in Chromium, at two widths and in both themes; skipped where neither it nor its driver can be had.
BROWSER := target/browser
browser:
	cargo run --quiet --example report_pages -- $(BROWSER)/pages
	@crates/modelmix-cli/tests/browser/run.sh $(BROWSER)

# The wheel, built from the source distribution, installed into a virtual environment of its own and tested there. PYTEST takes more
# words for pytest. Its profile is that of the workspace's tests, so that no dependency is compiled twice. Its tests compare with the
# programs that `cargo build` made, and build nothing themselves.
PYTHON := target/python/bin/python
python: wheel
	cargo build --quiet --workspace --bins --example documents
	target/python/bin/ruff check --quiet python
	target/python/bin/ruff format --quiet --check python
	$(PYTHON) -m pytest --quiet -c python/pyproject.toml --rootdir python python/tests $(PYTEST)
	$(PYTHON) -m pytest --quiet -c python/pyproject.toml --rootdir python --doctest-modules --pyargs modelmix

WHEEL := target/wheels/built
wheel: $(WHEEL)
$(WHEEL): target/python/ready Cargo.toml Cargo.lock tools/build_wheel.py $(shell find crates/modelmix/src crates/modelmix/Cargo.toml crates/modelmix-encode/src crates/modelmix-encode/Cargo.toml crates/modelmix-cuda/src crates/modelmix-cuda/kernels crates/modelmix-cuda/Cargo.toml python/src python/modelmix python/*.toml python/*.md -type f -not -name '*.pyc')
	$(PYTHON) tools/build_wheel.py --profile dev
	touch $@

# What would be published: every crate is packed as `cargo publish` does, unpacked and compiled. (`make python` does the same for Python.)
package:
	python3 tools/check_packages.py

target/python/ready: python/tests/requirements.txt python/pyproject.toml
	rm -rf target/python
	python3 -m venv target/python
	$(PYTHON) -m pip install --quiet --requirement python/tests/requirements.txt
	touch $@

# The tests with torch and the tools that people use, whose packages take some gigabytes.
test-peers: wheel .venv-peers/ready
	cargo build --quiet --workspace --bins --example run_model
	.venv-peers/bin/python -m pip install --quiet --requirement python/tests/requirements.txt
	.venv-peers/bin/python -m pip install --quiet --force-reinstall --no-deps target/wheels/modelmix-*.whl
	.venv-peers/bin/python -m pytest --quiet -c python/pyproject.toml --rootdir python python/tests/peers $(PYTEST)

# Golden values and fixtures are checked in; these make them again with NumPy, independently of the Rust code.
golden: .venv/ready
	.venv/bin/python tools/golden.py
	.venv/bin/python tools/draw_idea.py
	.venv/bin/python tools/draw_bandwidth.py

# What the experiments expect offline, computed anew with NumPy and compared with their files.
expected: .venv/ready
	.venv/bin/python tools/expected.py

# The metrics' golden values come from the tools that people use; their packages take some gigabytes.
golden-peers: .venv-peers/ready
	.venv-peers/bin/python tools/golden_metrics.py

# What Pillow, torch, transformers and Parquet writers make of small images, networks and texts, for the tests of encoders.
golden-encoders: .venv-peers/ready .venv-pillow-12/ready
	.venv-peers/bin/python tools/golden_images.py
	.venv-pillow-12/bin/python tools/golden_resize.py pillow
	.venv-peers/bin/python tools/golden_resize.py pillow
	.venv-peers/bin/python tools/golden_resize.py torch
	.venv-peers/bin/python tools/golden_models.py
	.venv-peers/bin/python tools/golden_inception.py
	.venv-peers/bin/python tools/golden_minilm.py
	.venv-peers/bin/python tools/golden_tokens.py
	.venv-peers/bin/python tools/make_text_fixtures.py

.venv-pillow-12/ready:
	python3 -m venv .venv-pillow-12
	.venv-pillow-12/bin/pip install --quiet numpy 'pillow==12.*'
	touch $@

# Every decoder on mutated files for FUZZ_SECONDS each; it prints panics and slow files.
FUZZ_SECONDS := 600
fuzz:
	cargo build --release --package modelmix-encode --example fuzz_decoders
	for format in png jpg webp gif bmp; do target/release/examples/fuzz_decoders $$format $(FUZZ_SECONDS) || exit 1; done

.venv-peers/ready: tools/requirements-peers.txt
	python3 -m venv .venv-peers
	.venv-peers/bin/pip install --quiet --requirement tools/requirements-peers.txt
	touch $@

fixtures: .venv/ready
	.venv/bin/python tools/make_load_fixtures.py

.venv/ready: tools/requirements.txt
	python3 -m venv .venv
	.venv/bin/pip install --quiet --requirement tools/requirements.txt
	touch $@

clean:
	rm -rf target .venv .venv-bench .venv-peers .venv-pillow-12
