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


def vocabularies():
    """Files that hold a tokenizer and no weights."""
    def texts_of(words):
        return array(8, len(words), b"".join(string(word) for word in words))
    def types_of(kinds):
        return array(5, len(kinds), struct.pack(f"<{len(kinds)}i", *kinds))
    def file_of(model, words, kinds, *more):
        return gguf([("tokenizer.ggml.model", 8, string(model)), ("tokenizer.ggml.tokens", 9, texts_of(words)),
                     ("tokenizer.ggml.token_type", 9, types_of(kinds)), *more], [])
    pieces = ["<unk>", "<s>", "</s>", "<0x41>", "\u2581", "a", "b", "ab", "<|x|>"]
    scores = ("tokenizer.ggml.scores", 9, array(6, len(pieces), struct.pack(f"<{len(pieces)}f", *range(len(pieces)))))
    ids = [("tokenizer.ggml.bos_token_id", 4, struct.pack("<I", 1)), ("tokenizer.ggml.eos_token_id", 4, struct.pack("<I", 2)),
           ("tokenizer.ggml.unknown_token_id", 4, struct.pack("<I", 0)), ("tokenizer.ggml.add_bos_token", 7, b"\1"),
           ("tokenizer.ggml.add_space_prefix", 7, b"\1")]
    yield "spm", file_of("llama", pieces, [2, 3, 3, 6, 1, 1, 1, 1, 4], scores, *ids)
    letters = ["a", "b", "\u0120", "\u010a", "1", "2", "ab", "\u0120a", "<|im_end|>"]
    merges = ("tokenizer.ggml.merges", 9, texts_of(["a b", "\u0120 a"]))
    for pre in ("gpt-2", "llama-bpe", "qwen2", "tekken"):
        yield f"bpe_{pre}", file_of("gpt2", letters, [1] * 8 + [3], merges, ("tokenizer.ggml.pre", 8, string(pre)), *ids[1:2])


def changed_models():
    """The first byte chooses an architecture; then come the place of a byte, in two, and what it is changed by."""
    for architecture in range(20):
        yield f"model_{architecture}", bytes([architecture])
        yield f"changed_{architecture}", bytes([architecture]) + struct.pack(">HB", 97 * architecture, 1)
    yield "raw", b"\xff" + gguf(SCALARS, [("token_embd.weight", [8, 4], 0, 128)])


def plans():
    head = '"version":2,"made_for":{"model":"m","model_bytes":1,"model_hash":"00","machine":"a processor, 2 cores"}'
    shapes = '"step_shapes":[1,8],"prompt_shapes":[32,128],"output_shapes":[1],"short_rest":8,"reuse_granule":1'
    common = f'{head},"context":512,"activations":"q8","prefill":"int8","packed_bytes":0,"kv":"F16",{shapes}'
    lanes = '"lanes":[{"kind":"host","threads":1,"cores":[0]},{"kind":"opencl","device":"0","threads":0,"cores":[1],"busy_percent":50}]'
    rules = '"placements":[{"subgraph":"ffn","least_tokens":2,"lane":1,"phase":"prompt","mixes_classes":true}]'
    one = '"lanes":[{"kind":"host","threads":2,"cores":[0,1]}],"placements":[]'
    cuts = ('"cuts":[{"subgraph":"ffn","op":"ffn_down","least_tokens":2,"most_tokens":512,"rows":[{"lane":0,"n":64},{"lane":1,"n":32}]},'
            '{"subgraph":"attention","op":"","phase":"prompt","heads":[{"lane":0,"n":1},{"lane":1,"n":1}]}],'
            '"lengths":[{"n_tokens":300,"parts":[{"lane":0,"n":256},{"lane":1,"n":44}]}]')
    numbers = ('"int8":{"method":"token-shadow","weight_scales":"row","outlier_prune":85,"text":"t","tokens":9,"perplexity":6.1,'
               '"quantile":0.998,"smooth_alpha":0,"losses":[{"method":"token","outlier_prune":100,"loss":0.025}],'
               '"inputs":[{"weight":"blk.0.attn_q.weight","largest":19.5,"limit":3.3125,"limit_alone":15.5,'
               '"outliers_per_token":0.51,"outlier_channels":1,"hot_channels":[87]}]}')
    attention = '"attention":{"form":"query","share":0.2,"from":512,"head_shares":[0.1,0.3],"reason":"r"}'
    for name, parts in (("plain", [one]), ("lanes", [lanes, rules, cuts]), ("int8", [one, numbers]), ("attention", [one, attention]),
                        ("costs", [one, '"step_costs":[{"rows":1,"ms":2.5},{"rows":8,"ms":4}],"order":"lock-step"'])):
        yield name, ("{" + ",".join([common, *parts]) + "}").encode()


def profiles():
    machine = ('"machine":{"cpu":"c","n_cores":2,"features":"f","memory_bytes":9,"kernel":"k","arithmetic":"avx2, q8"},'
               '"taken":"2026-01-31T12:00:00Z","load_average":0.5,"n_left_out":1')
    lanes = ('"lanes":[{"name":"host 0","cores":[0],"n_threads":1,"is_matrix":false},'
             '{"name":"opencl:0","cores":[1],"n_threads":1,"is_matrix":true,"identity":"i"}]')
    rates = ('"starts":[{"lane":0,"us":0.5}],"refusals":[{"lane":1,"op":"embed","phase":"step"}],"handovers":[{"from":0,"to":1,"us":2.5}],'
             '"bandwidth":[{"lanes":[0,1],"gb_s":[12.5,9]}],"cores":[{"core":0,"gops":200,"gb_s":12}]')
    shape = '"type":"Q8_0","n_rows":64,"k":32,"n_tokens":8,"phase":"step","context":0,"head_dim":0,"us":3.5,"spread":0.06,"n_runs":9'
    ops = f'"ops":[{{"lane":0,"op":"linear",{shape}}},{{"lane":1,"op":"linear",{shape},"arrangement":"a","arrangement_gain":1.5,"build_us":44,"rebuild_us":22,"first_run_us":3}}]'
    storage = ('"storage":{"folder":"/","is_direct":true,"reads":[{"block_bytes":4096,"range_bytes":65536,"is_random":true,"depth":4,'
               '"us":80.5,"mb_s":200}]}')
    for name, parts in (("rates", []), ("storage", [storage])):
        yield name, ("{" + ",".join(['"format":"troika-profile","version":3', machine, lanes, rates, ops, *parts]) + "}").encode()


def phones():
    folder = pathlib.Path(__file__).resolve().parent.parent / "phones"
    yield "phone", b"\0" + (folder / "8gen3.json").read_bytes()
    for path in sorted((folder / "stacks").glob("*.json")):
        yield f"stack_{path.stem}", b"\1" + path.read_bytes()
    yield "like", b'\1{"version":1,"name":"n","title":"t","like":"other","npu":{"launch_us":{"value":2,"source":"hf001","range":[1,3]}}}'


def predictors():
    yield "right", b"\1"
    yield "hashed", b"\2"
    for name, place in (("version", 16), ("layers", 32), ("width", 48), ("type", 64), ("recall", 79), ("content", 300)):
        yield f"changed_{name}", b"\2" + struct.pack(">HB", place, 1)
    shape = struct.pack("<7Q", 2, 7, 1, 1, 32, 32, 8)
    yield "raw", b"\0" + b"troika-predict\0\0" + shape + struct.pack("<2d2Q", 0.9, 1.5, 0, 0) + bytes(192)


def configs():
    common = ('"hidden_size":64,"num_hidden_layers":2,"num_attention_heads":2,"num_key_value_heads":1,"head_dim":32,'
              '"intermediate_size":96,"vocab_size":128,"max_position_embeddings":256')
    gemma = '"query_pre_attn_scalar":32,"hidden_activation":"gelu_pytorch_tanh","sliding_window":64'
    llama3 = ('"rope_scaling":{"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,'
              '"original_max_position_embeddings":8192},"rope_theta":500000.0,"tie_word_embeddings":true')
    for family, more in (("Llama", llama3), ("Mistral", '"sliding_window":null'), ("Qwen2", '"rope_theta":1000000.0'), ("Qwen3", '"attention_bias":false'),
                         ("Gemma", gemma), ("Gemma2", gemma), ("Gemma3", gemma), ("Phi", '"partial_rotary_factor":0.5'),
                         ("Phi3", '"sliding_window":2047,"hidden_act":"silu"')):
        yield family, f'{{"architectures":["{family}ForCausalLM"],{common},{more}}}'.encode()


def request_bodies():
    """The first byte chooses the interface: chats, messages, responses, or how tokens are chosen."""
    tool = '{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{"x":{"type":"integer"}}}}}'
    call = '"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\\"x\\":1}"}}]'
    yield "chat", ('\0{"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"u"}]},'
                   f'{{"role":"assistant","content":null,{call}}},{{"role":"tool","tool_call_id":"1","content":"2"}}],"tools":[{tool}],'
                   '"tool_choice":"auto","parallel_tool_calls":false,"response_format":{"type":"json_object"}}').encode()
    yield "named", f'\0{{"messages":[{{"role":"user","content":"u"}}],"tools":[{tool}],"tool_choice":{{"type":"function","function":{{"name":"f"}}}}}}'.encode()
    yield "messages", ('\1{"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":"u"},{"role":"assistant","content":'
                       '[{"type":"thinking","thinking":"h","signature":""},{"type":"tool_use","id":"1","name":"f","input":{"x":1}}]},'
                       '{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"2"}]}],'
                       '"tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"any"}}').encode()
    yield "responses", ('\2{"instructions":"s","input":[{"role":"user","content":[{"type":"input_text","text":"u"}]},'
                        '{"type":"function_call","call_id":"1","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"1","output":"2"}],'
                        '"tools":[{"type":"function","name":"f","parameters":{}}],"text":{"format":{"type":"text"}}}').encode()
    yield "sampling", (b'\3{"temperature":0.5,"top_p":0.9,"top_k":4,"seed":7,"stop":["a","b"],"logit_bias":{"3":-1.5,"a":false},'
                       b'"presence_penalty":0.5,"frequency_penalty":0.1,"min_p":0.05,"stream":true,"stream_options":{"include_usage":true}}')


def answers():
    """The first byte chooses a reader, as answer_fuzz.cc says."""
    called = b'<tool>{"name": "f", "arguments": {"a": "}\\"<"}}</tool>'
    pairs, marked = b"a<f=g><p=x>1</p><p=y>two <b></p></f>\nb", b'<call>f{a:<|"|>x "<|"|>,b:[1,{c:true}]}</call><call>g{}</call>'
    for choice, text in ((0, called * 2), (1, pairs), (2, marked), (3, b"<think>so</think>\n" + called), (7, b"so</think>" + pairs),
                         (9, b"<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary to=functions.f "
                             b"<|constrain|>json<|message|>{}<|call|>"), (33, b"words<|return|>")):
        yield f"reader_{choice}", bytes([choice]) + text


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
               "fuzz_grammar_json_schema": json_schemas,
               "fuzz_text_vocabulary": vocabularies, "fuzz_weights_store": changed_models, "fuzz_plan_plan": plans,
               "fuzz_plan_profile": profiles, "fuzz_convert_config": configs, "fuzz_server_request": request_bodies,
               "fuzz_server_answer": answers, "fuzz_plan_phone": phones, "fuzz_weights_predictor": predictors}
    for target, files in corpora.items():
        folder = pathlib.Path(sys.argv[1]) / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in files():
            (folder / name).write_bytes(data)
        print(f"{folder}: {len(list(folder.iterdir()))} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
