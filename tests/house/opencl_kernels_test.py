"""Kernels of OpenCL must compile in the forms that no driver here has, with extensions of a device.

    python3 tests/house/opencl_kernels_test.py

clang-14 knows the extensions' functions; it reads the kernels and makes no code.
"""

import itertools
import pathlib
import shutil
import subprocess
import sys

KERNELS = pathlib.Path(__file__).parents[2] / "src" / "lanes" / "opencl" / "kernels"
FLOATS, HALVES, BFLOATS, BYTES, NIBBLES, QUADS = range(6)
DOTS = {"cl_khr_integer_dot_product": 1, "__opencl_c_integer_dot_product_input_4x8bit_packed": 1,
        "DOT": "dot_4x8packed_ss_int"}

CORES = {"ROWS": 16, "SPLIT": 1}
GPU = {"ROWS": 4, "SPLIT": 8, "PIECES_TOGETHER": 8}


def forms():
    """Yields the standard of each form of product.cl, and its macros."""
    for form, group in ((FLOATS, 32), (HALVES, 32), (BFLOATS, 32), (BYTES, 16), (NIBBLES, 32)):
        minima = (0, 1) if form in (BYTES, NIBBLES) else (0,)
        halves = (0, 1, 2) if form in (BYTES, NIBBLES) else (0,)
        for has_minima, half, shape in itertools.product(minima, halves, (CORES, GPU)):
            yield "CL1.2", {"FORM": form, "GROUP": group, "HAS_SCALES": int(form in (BYTES, NIBBLES)),
                            "HAS_MINIMA": has_minima, "IS_EXACT": 0, "MIDDLE": 8, "HALF": half, **shape}
    for rows in 4, 16:
        yield from exact_forms(rows)


def exact_forms(rows):
    exact = {"GROUP": 1024, "HAS_SCALES": 0, "HAS_MINIMA": 0, "IS_EXACT": 1, "MIDDLE": 0, "ROWS": rows, "SPLIT": 1}
    yield "CL1.2", {"FORM": BYTES, **exact}
    yield "CL1.2", {"FORM": QUADS, "DOT": "dot_of_bytes", **exact}
    yield "CL3.0", {"FORM": QUADS, **DOTS, **exact}


def main():
    if not shutil.which("clang-14"):
        print("skipped: clang-14 is not installed")
        return 0
    n_wrong = 0
    for standard, macros in forms():
        command = ["clang-14", "-x", "cl", f"-cl-std={standard}", "-target", "spir64",
                   "-Xclang", "-finclude-default-header", "-fsyntax-only", "-Wall", "-Werror",
                   "-Wno-unused-function", "-Wno-unused-variable",
                   "-Wno-ignored-pragmas"]
        command += [f"-D{name}={value}" for name, value in {"BASE": 0, **macros}.items()]
        told = subprocess.run([*command, KERNELS / "product.cl"], capture_output=True, text=True)
        if told.returncode != 0:
            n_wrong += 1
            print(f"{standard} {macros}:\n{told.stderr[:2000]}")
    return 1 if n_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
