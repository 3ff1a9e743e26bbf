#!/usr/bin/env python3
"""Writes the seed files of the fuzz targets: FOLDER/TARGET/NAME for each program fuzz_ROOM_NAME.

usage: make_fuzz_corpus.py FOLDER
"""
import pathlib
import struct
import sys


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def array(element_type, count, data):
    return struct.pack("<IQ", element_type, count) + data


SCALARS = [
    ("u8", 0, b"\xc8"), ("i8", 1, b"\xff"), ("u16", 2, b"\x01\x02"), ("i16", 3, b"\xfe\xff"),
    ("u32", 4, struct.pack("<I", 32)), ("i32", 5, struct.pack("<i", -7)),
    ("f32", 6, struct.pack("<f", 1e-5)), ("bool", 7, b"\x01"), ("string", 8, string("llama")),
    ("u64", 10, struct.pack("<Q", 1 << 40)), ("i64", 11, struct.pack("<q", -1)),
    ("f64", 12, struct.pack("<d", 2.5)),
]
ARRAYS = [
    ("ints", 9, array(5, 3, struct.pack("<3i", 1, 2, 3))),
    ("floats", 9, array(6, 2, struct.pack("<2f", 0.5, -1))),
    ("strings", 9, array(8, 3, string("a") + string("") + string("bc"))),
    ("bools", 9, array(7, 2, b"\0\1")),
    ("nested", 9, array(9, 2, array(0, 2, b"ab") + array(9, 1, array(8, 1, string("deep"))))),
    ("empty", 9, array(8, 0, b"")),
]
# (type number, elements per block, bytes per block) of the supported types
TYPES = [(0, 1, 4), (1, 1, 2), (30, 1, 2), (2, 32, 18), (3, 32, 20), (6, 32, 22), (7, 32, 24), (8, 32, 34),
         (10, 256, 84), (11, 256, 110), (12, 256, 144), (13, 256, 176), (14, 256, 210), (20, 32, 18),
         (23, 256, 136), (39, 32, 17)]
UNSUPPORTED = (16, 256, 66)  # IQ2_XXS


def gguf(entries, tensors, version=3, alignment=32):
    """tensors: (name, shape, type, bytes of data)"""
    out = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(entries))
    for key, kind, data in entries:
        out += string(key) + struct.pack("<I", kind) + data
    data = b""
    for name, shape, kind, n_bytes in tensors:
        out += string(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        out += struct.pack("<IQ", kind, len(data))
        data += bytes(n_bytes)
        data += bytes(-len(data) % alignment)
    return out + bytes(-len(out) % alignment) + data


def gguf_files():
    yield "empty_v2", gguf([], [], version=2)
    yield "scalars", gguf(SCALARS, [])
    yield "arrays", gguf(ARRAYS, [])
    for kind, length, n_bytes in TYPES:
        yield f"type_{kind}", gguf([], [("t", [length, 2], kind, 2 * n_bytes)])
    yield "unsupported_type", gguf([], [("t", [UNSUPPORTED[1]], UNSUPPORTED[0], UNSUPPORTED[2]), ("u", [2, 1, 1, 3], 0, 24)])
    aligned = [("general.alignment", 4, struct.pack("<I", 64))]
    yield "aligned", gguf(aligned, [("a", [3], 0, 12), ("b", [32], 8, 34)], alignment=64)
    yield "all", gguf(SCALARS + ARRAYS, [("a", [8, 4], 0, 128), ("b", [32, 4], 2, 72)], version=2)


def fnv(data, value=0xCBF29CE484222325):
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return value


def histories():
    header = b"TROIKAHI" + struct.pack("<IIQ", 1, 0, 0x5EED)
    header += struct.pack("<Q", fnv(header))
    records = b""
    for text in ([1, 2, 3, 4], [4095], [9, 2, 3, 7]):
        tokens = struct.pack(f"<{len(text)}I", *text)
        count = struct.pack("<I", len(text))
        records += count + bytes(4) + struct.pack("<Q", fnv(count + tokens)) + tokens
    # The first byte says what follows: a file, or texts of which the target makes one.
    yield "empty", b"\1" + header
    yield "three", b"\1" + header + records
    yield "torn", b"\1" + header + records[:-5]
    yield "texts", b"\0" + b"".join(bytes([len(text)]) + struct.pack(f"<{len(text)}h", *text) for text in ([1, 2, 1, 2], [4095]))
    yield "no_token", b"\0\2" + struct.pack("<2h", 1, -1)


def bundle_files():
    yield "right", b"\0"
    yield "right_of_two_pieces", b"\1"
    yield "raw", b"\2troika-bundles"
    # Changes, of which each is the place of a byte and what it is changed by: of the header, of a hash, of an order.
    for place in (0, 16, 24, 32, 40, 80, 88, 100, 112, 113, 116):
        yield f"changed_{place}", b"\0" + struct.pack(">HB", place, 1)
        yield f"damaged_{place}", b"\4" + struct.pack(">HB", place, 1)


def safetensors(header, data=b""):
    text = header.encode()
    return struct.pack("<Q", len(text)) + text + data


def safetensors_files():
    one = '"dtype":"%s","shape":[2,3],"data_offsets":[0,%d]'
    yield "empty", safetensors("{}")
    for dtype, size in (("F32", 4), ("F16", 2), ("BF16", 2), ("I64", 8), ("U8", 1), ("NEW", 1)):
        yield dtype, safetensors('{"t":{' + one % (dtype, 6 * size) + "}}", bytes(6 * size))
    two = '"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"b":{"shape":[0],"dtype":"F16","data_offsets":[4,4]}'
    yield "two", safetensors('{"__metadata__":{"format":"pt"},' + two + "}   ", bytes(4))
    yield "overlap", safetensors("{" + two.replace("[4,4]", "[2,4]").replace("[0]", "[1]") + "}", bytes(4))


def field(number, content):
    """A field of a protocol buffer: a number below 128, or bytes."""
    if isinstance(content, int):
        return bytes([number << 3, content]) if number < 16 else bytes([number << 3 & 127 | 128, number >> 4, content])
    return bytes([number << 3 | 2, len(content)]) + content


def sentencepieces():
    def piece(text, score, kind):
        return field(1, field(1, text.encode()) + b"\x15" + struct.pack("<f", score) + field(3, kind))
    pieces = piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("</s>", 0, 3) + piece("<0x41>", 0, 6)
    pieces += piece("\u2581a", -1, 1) + piece("a", -2, 1)
    training = field(2, field(3, 2) + field(40, 0) + field(41, 1) + field(42, 2) + field(43, 3))
    yield "bpe", pieces + training + field(3, field(2, b"map") + field(3, 0) + field(4, 0))
    yield "unigram", pieces + field(2, field(3, 1))
    yield "long", pieces + training + b"\x0a\xff\xff\xff\xff\x0f"


def tokenizer_jsons():
    bpe = '"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"<unk>":3},"merges":["a b"]'
    added = '"added_tokens":[{"id":4,"content":"<|x|>","special":true},{"id":5,"content":"y","rstrip":true}]'
    template = '"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"a"}},{"Sequence":{"id":"A"}}]}'
    split = '{"type":"Split","pattern":{"Regex":"a+"},"behavior":"Isolated"}'
    for name, pre in (("bytes", '{"type":"ByteLevel","use_regex":true}'),
                      ("digits", '{"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},{"type":"ByteLevel"}]}'),
                      ("split", f'{{"type":"Sequence","pretokenizers":[{split}]}}'), ("none", "null")):
        yield name, f'{{"pre_tokenizer":{pre},"model":{{{bpe},"ignore_merges":false}},{added},{template}}}'.encode()
    normalizer = '"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"\u2581"},{"type":"NFC"},{"type":"Lowercase"}]}'
    pairs = bpe.replace('"a b"', '["a","b"]')
    yield "sentencepiece", f'{{"model":{{{pairs},"byte_fallback":true,"unk_token":"<unk>"}},{normalizer},{added}}}'.encode()


def templates():
    """The templates of the models that are built in, and what they have not."""
    for path in sorted((pathlib.Path(__file__).resolve().parent.parent / "models").glob("*.gguf")):
        data, key = path.read_bytes(), b"tokenizer.chat_template" + struct.pack("<I", 8)
        if key in data:
            begin = data.index(key) + len(key)
            yield path.stem, data[begin + 8:begin + 8 + struct.unpack_from("<Q", data, begin)[0]]
    yield "roles", (b"{{ bos_token }}{%- for m in messages -%}<|{{ m.role }}|>\n{{ m['content'] | trim }}{{ eos_token }}"
                    b"{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}")
    yield "tools", (b"{%- macro show(x, n=2) %}{{ x | tojson(indent=n) }}{% endmacro -%}{% set ns = namespace(i=0) %}"
                    b"{% for m in messages if m.tool_calls is defined %}{% set ns.i = ns.i + 1 %}"
                    b"{% for c in m.tool_calls %}{{ show(c.function.arguments) }}{{ loop.index0 }}{% else %}none{% endfor %}"
                    b"{% endfor %}{{ ns.i }}{{ tools | length }}")
    yield "filters", (b"{{ messages | map(attribute='role') | unique | join(',') | upper }}{{ n ** 2 // 3 % 5 ~ 'x' }}"
                      b"{{ messages | selectattr('role', 'equalto', 'user') | list | first | string | replace('a', 'b') }}"
                      b"{{ (messages | last).content.split('</think>')[-1].lstrip('\\n')[1:-1] }}{{ range(n) | batch(3) | list }}")
    yield "rest", (b"{% set a, b = [1, 2.5] %}{{ 'a' if a in [1] and b is not none else {'k': a}['k'] }}{# c #}{% raw %}{{ }}{% endraw %}"
                   b"{% filter lower %}ABC{% endfilter %}{{ '%05.2f' | format(b) }}{{ raise_exception('no') if n == 8 }}"
                   b"{% for k, v in messages[0].items() %}{{ k }}{% if loop.last %}{% break %}{% endif %}{% endfor %}")


def texts():
    """The first byte chooses a tokenizer, and whether special tokens are."""
    text = "<|end|> aab abc  12345's Caf\u00e9 \u4e2d\u6587 \U0001f600\r\n\t<|x|> <| HTTPServer don't ".encode()
    for choice in range(28):
        yield f"tokenizer_{choice}", bytes([choice]) + text
    yield "broken", b"\1a\xff\xc3 \xe4\xb8<|"


def listings():
    lfs = '"lfs":{"oid":"%s","size":%d,"pointerSize":130}'
    one = '{"type":"file","oid":"00","size":%d,"path":"%s",' + lfs + "}"
    names = ["m-Q4_K_M.gguf", "m-Q8_0-00001-of-00002.gguf", "m-Q8_0-00002-of-00002.gguf", "d/a.UD-IQ2_XXS.gguf"]
    files = ",".join(one % (5, name, "ab" * 32, 5) for name in names)
    yield "page", f'[{{"type":"directory","path":"d","size":0}},{files}]'.encode()
    yield "outside", f'[{one % (5, "../m.gguf", "ab" * 32, 5)}]'.encode()
    yield "link", b'<https://huggingface.co/api/models/a/b/tree/main?cursor=x>; rel="next"'
    yield "range", b"bytes 100-199/1000"


def gbnf_texts():
    yield "list", b'root ::= "[" item ("," item)* "]"\nitem ::= [a-z]+ | [^\\n"]{2,5} # end'
    yield "sum", b'root ::= root "+" atom | atom\natom ::= "\\x41" | "(" root ")"'


def regexes():
    yield "words", b"^(?:[a-c]+|\\w{2,3}\\x41)(,|$)"
    yield "unicode", "[^\\u4e2d-\\u{1F600}]*?é|\\p{L}\\S".encode()


def json_schemas():
    yield "object", (b'{"type":"object","properties":{"a":{"type":"integer","minimum":3},"b":{"$ref":"#"}},'
                     b'"required":["a"],"patternProperties":{"^x":{"enum":[1,"y",null]}},"minProperties":1}')
    yield "choice", b'{"oneOf":[{"const":1},{"not":{"type":"string"}}],"if":{"minimum":1},"then":{"maximum":5}}'
    chain = ",".join('{"$ref":"#/$defs/x/allOf/%d"}' % i for i in range(1, 60))
    yield "chain", (b'{"anyOf":[{"$ref":"#/$defs/x/allOf/0"}],"$defs":{"x":{"allOf":[' + chain.encode() +
                    b',{"type":"integer"}]}}}')
    yield "array", b'{"prefixItems":[{"pattern":"a+$","maxLength":4}],"items":{"multipleOf":0.5},"maxItems":3}'


def requests():
    yield "get", b"GET /health?a=b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET / HTTP/1.0\r\n\r\n"
    yield "body", b"POST /v1 HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabcPRI"
    chunks = b"3\r\nabc\r\n0a\r\n0123456789\r\n0\r\n\r\n"
    yield "chunks", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks


def main():
    if len(sys.argv) != 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    corpora = {"fuzz_gguf_file": gguf_files, "fuzz_draft_history": histories,
               "fuzz_weights_bundle_file": bundle_files, "fuzz_convert_safetensors": safetensors_files,
               "fuzz_convert_sentencepiece": sentencepieces, "fuzz_convert_tokenizer_json": tokenizer_jsons,
               "fuzz_jinja_template": templates, "fuzz_text_tokenizer": texts,
               "fuzz_fetch_listing": listings, "fuzz_http_parser": requests,
               "fuzz_grammar_gbnf": gbnf_texts, "fuzz_grammar_regex": regexes,
               "fuzz_grammar_json_schema": json_schemas}
    for target, files in corpora.items():
        folder = pathlib.Path(sys.argv[1]) / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in files():
            (folder / name).write_bytes(data)
        print(f"{folder}: {len(list(folder.iterdir()))} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
