"""A small writer and reader for GGUF version 3: metadata, and tensors as F32, F16 or Q8_0."""

import struct

import numpy as np

U32, F32_VALUE, BOOL, STRING, ARRAY, I32, U64 = 4, 6, 7, 8, 9, 5, 10
TYPES = {"F32": 0, "F16": 1, "Q8_0": 8}
ALIGNMENT = 32


def q8_0(x):
    """Blocks of 32: an F16 scale, then 32 signed bytes; x is about scale * byte."""
    blocks = np.ascontiguousarray(x, np.float32).reshape(-1, 32)
    scale = np.abs(blocks).max(1, keepdims=True) / 127
    inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale > 0)
    scaled = blocks * inverse
    quants = np.trunc(scaled + np.copysign(np.float32(0.5), scaled))  # halves away from zero
    out = np.zeros((len(blocks), 34), np.uint8)
    out[:, :2] = scale.astype("<f2").view(np.uint8)
    out[:, 2:] = quants.astype(np.int8).view(np.uint8)
    return out.tobytes()


def undo_q8_0(raw, n):
    blocks = np.frombuffer(raw, np.uint8).reshape(-1, 34)
    scale = blocks[:, :2].copy().view("<f2").astype(np.float32)
    return (blocks[:, 2:].view(np.int8) * scale).reshape(-1)[:n]


def _string(s):
    raw = s.encode()
    return struct.pack("<Q", len(raw)) + raw


def _value(v):
    """(type, bytes). Python ints are unsigned 32-bit; lists hold strings, ints (signed) or floats."""
    if isinstance(v, bool):
        return BOOL, struct.pack("<B", v)
    if isinstance(v, int):
        return U32, struct.pack("<I", v)
    if isinstance(v, float):
        return F32_VALUE, struct.pack("<f", v)
    if isinstance(v, str):
        return STRING, _string(v)
    if all(isinstance(x, str) for x in v):
        return ARRAY, struct.pack("<IQ", STRING, len(v)) + b"".join(map(_string, v))
    if all(isinstance(x, int) for x in v):
        return ARRAY, struct.pack("<IQ", I32, len(v)) + struct.pack(f"<{len(v)}i", *v)
    return ARRAY, struct.pack("<IQ", F32_VALUE, len(v)) + struct.pack(f"<{len(v)}f", *v)


def write(path, metadata, tensors):
    """tensors: name -> (array, type name). The last dimension of an array is the contiguous one."""
    header = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(metadata))
    for key, v in metadata.items():
        kind, raw = _value(v)
        header += _string(key) + struct.pack("<I", kind) + raw
    blobs, at = [], 0
    for name, (x, kind) in tensors.items():
        if kind == "Q8_0":
            raw = q8_0(x)
        else:
            raw = np.ascontiguousarray(x).astype("<f4" if kind == "F32" else "<f2").tobytes()
        shape = x.shape[::-1]
        header += _string(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        header += struct.pack("<IQ", TYPES[kind], at)
        padded = raw + b"\0" * (-len(raw) % ALIGNMENT)
        blobs.append(padded)
        at += len(padded)
    with open(path, "wb") as f:
        f.write(header + b"\0" * (-len(header) % ALIGNMENT))
        f.writelines(blobs)


class Reader:
    """Reads what `write` writes; for trusted files only."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.raw = f.read()
        self.at = 4
        version, n_tensors, n_values = self._take("<IQQ")
        if self.raw[:4] != b"GGUF" or version != 3:
            raise ValueError(f"{path} is not a GGUF file of version 3")
        self.metadata = {}
        for _ in range(n_values):
            key = self._text()
            self.metadata[key] = self._read(self._take("<I")[0])
        infos = {}
        for _ in range(n_tensors):
            name = self._text()
            shape = self._take(f"<{self._take('<I')[0]}Q")[::-1]
            infos[name] = (shape, *self._take("<IQ"))
        base = (self.at + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
        self.tensors = {n: self._tensor(base + at, shape, kind) for n, (shape, kind, at) in infos.items()}
        self.types = {n: kind for n, (_, kind, _) in infos.items()}

    def _take(self, form):
        values = struct.unpack_from(form, self.raw, self.at)
        self.at += struct.calcsize(form)
        return values

    def _text(self):
        n = self._take("<Q")[0]
        self.at += n
        return self.raw[self.at - n : self.at].decode()

    def _read(self, kind):
        if kind == STRING:
            return self._text()
        if kind == ARRAY:
            of, n = self._take("<IQ")
            if of == STRING:
                return [self._text() for _ in range(n)]
            return list(self._take(f"<{n}{'i' if of == I32 else 'f'}"))
        value = self._take({U32: "<I", U64: "<Q", F32_VALUE: "<f", BOOL: "<B"}[kind])[0]
        return bool(value) if kind == BOOL else value

    def _tensor(self, at, shape, kind):
        n = int(np.prod(shape))
        if kind == TYPES["Q8_0"]:
            x = undo_q8_0(self.raw[at : at + n // 32 * 34], n)
        else:
            x = np.frombuffer(self.raw, "<f4" if kind == 0 else "<f2", n, at).astype(np.float32)
        return x.reshape(shape)
