"""The public headers: each one alone in C and C++, all installed, and what they declare is exported."""

import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADERS = sorted((ROOT / "include/tenure").glob("*.h"))
WARN = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-c", "-o/dev/null", f"-I{ROOT}/include"]


def compiles(compiler, *args, text):
    return subprocess.run([compiler, *args, *WARN, "-"], input=text, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("compiler, args", [("cc", ("-std=c11", "-xc")), ("c++", ("-std=c++17", "-xc++"))])
def test_each_header_compiles_alone(compiler, args):
    if not shutil.which(compiler):
        pytest.skip(f"there is no {compiler} here")
    for header in HEADERS:
        done = compiles(compiler, *args, text=f"#include <tenure/{header.name}>\nextern int not_empty;\n")
        assert done.returncode == 0, done.stderr


def test_an_ignored_answer_is_warned_about():
    call = "#include <tenure/tenure.h>\nvoid f(tenure_fence *x);\nvoid f(tenure_fence *x) { %s; }\n"
    check = "tenure_fence_check(x, 1, 0, 0)"
    assert compiles("cc", "-std=c11", "-xc", text=call % f"if ({check}) f(x)").returncode == 0
    assert "unused" in compiles("cc", "-std=c11", "-xc", text=call % check).stderr


def test_all_headers_are_installed_and_in_tenure_h():
    installed = (ROOT / "include/meson.build").read_text()
    whole = (ROOT / "include/tenure/tenure.h").read_text()
    for header in HEADERS:
        assert f"'tenure/{header.name}'" in installed
        assert header.name == "tenure.h" or f'#include "{header.name}"' in whole


def test_the_library_exports_what_the_headers_declare(build):
    text = "".join(header.read_text() for header in HEADERS)
    declared = set(re.findall(r"TENURE_(?:API|CHECKED)\b[^;]*?\b(tenure_\w+)\(", text))
    table = subprocess.run(["nm", "-D", "--defined-only", build / "libtenure.so"], capture_output=True, text=True,
                           check=True).stdout
    exported = {line.split()[-1] for line in table.splitlines() if " T " in line}
    assert len(declared) > 60 and exported == declared
