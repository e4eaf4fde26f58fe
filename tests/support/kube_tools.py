"""helm and kustomize; scripts/kube-tools builds them."""

import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
VERSION = re.search(r"^\s*helm\.sh/helm/v3 v(\S+)", (ROOT / "tests/support/kube-tools/go.mod").read_text(), re.M).group(1)
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
BIN = CACHE / "tenure" / f"kube-tools-{VERSION}"
HELM, KUSTOMIZE = BIN / "helm", BIN / "kustomize"

# `make test-all` builds them and requires them; a build that goes on is waited for.
if os.environ.get("TENURE_KUBE") == "required":
    subprocess.run([str(ROOT / "scripts/kube-tools")], check=True, stdout=subprocess.DEVNULL)
MISSING = None
if not HELM.exists() or not KUSTOMIZE.exists():
    MISSING = f"no helm and kustomize in {BIN}: run scripts/kube-tools (2 minutes, once), or make test-all"
