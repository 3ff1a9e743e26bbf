// troika inspect: shows what a model file holds.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/bytes_text.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/flags/idle_note.h"
#include "cli/json_stream.h"
#include "cli/load.h"
#include "cli/output.h"
#include "cli/use/models.h"
#include "gguf/file.h"
#include "model/architecture.h"

namespace troika::cli {
namespace {

struct InspectFlags {
  std::string model;
  bool tensors = false;
  bool all = false;
  bool json = false;
};

std::string shape_text(const gguf::TensorInfo& tensor) {
  std::string text;
  for (const uint64_t length : tensor.shape) {
    if (!text.empty()) text += " x ";
    text += fmt::format("{}", length);
  }
  return text;
}

// Returns a value that is no array.
nlohmann::ordered_json plain_json(const gguf::Value& value) {
  if (value.type == gguf::ValueType::kBool) return std::get<uint64_t>(value.data) != 0;
  return std::visit(
      [](const auto& plain) -> nlohmann::ordered_json {
        if constexpr (std::is_same_v<std::decay_t<decltype(plain)>, gguf::Array>) {
          return nullptr;  // handled above
        } else {
          return plain;
        }
      },
      value.data);
}

void write_value(const gguf::Value& value, uint64_t most_elements, JsonStream& out) {
  const auto* array = std::get_if<gguf::Array>(&value.data);
  if (array == nullptr) return out.value(plain_json(value));
  out.begin_array();
  gguf::for_each_element(*array, most_elements, [&](const gguf::Value& element) {
    write_value(element, most_elements, out);
  });
  out.end_array();
}

// Writes one line for people: long arrays and strings are cut.
void print_entry(const gguf::File::Entry& entry, bool all) {
  constexpr uint64_t kElements = 4;
  constexpr size_t kCharacters = 60;
  constexpr size_t kPieceBytes = 1 << 16;
  const auto* array = std::get_if<gguf::Array>(&entry.value.data);
  std::string line = fmt::format("{:<44} ", terminal_text(entry.key));
  if (array != nullptr && !all) line += fmt::format("{} of ", array->count);
  const size_t begin = line.size();
  const bool is_cut = !all && array == nullptr;
  const auto take = [&](const std::string& piece) {
    line += terminal_text(piece);
    if (is_cut || line.size() < kPieceBytes) return;
    print(line);
    line.clear();
  };
  JsonStream out(take, -1);
  write_value(entry.value, all ? UINT64_MAX : kElements, out);
  out.flush();
  if (array != nullptr && !all && array->count > kElements) line += " ...";
  if (is_cut && line.size() - begin > kCharacters) {
    const size_t n_characters = line.size() - begin;
    size_t end = begin + kCharacters;
    while (end > begin && (static_cast<unsigned char>(line[end]) & 0xC0) == 0x80) --end;
    line.resize(end);
    line += fmt::format(" ... ({} characters)", n_characters);
  }
  print(line + "\n");
}

// A file may hold millions of keys, elements and tensors: each is written and forgotten.
void print_file_json(const gguf::File& file) {
  JsonStream out([](const std::string& piece) { print(piece); }, 2);
  const auto member = [&](const char* key, const nlohmann::ordered_json& value) {
    out.key(key);
    out.value(value);
  };
  out.begin_object();
  member("file", file.path());
  member("version", file.version());
  member("bytes", file.file_bytes());
  member("alignment", file.alignment());
  out.key("metadata");
  out.begin_object();
  for (const gguf::File::Entry& entry : file.metadata()) {
    out.key(entry.key);
    write_value(entry.value, UINT64_MAX, out);
  }
  out.end_object();
  out.key("tensors");
  out.begin_array();
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    out.value({{"name", tensor.name},
               {"type", tensor::type_name(tensor.type)},
               {"shape", tensor.shape},
               {"bytes", tensor.bytes}});
  }
  out.end_array();
  out.end_object();
  out.flush();
  print("\n");
}

// Returns what sets the attention of blocks apart, most frequent first: "13 blocks see 4096
// positions".
std::string attention_text(const model::Blueprint& b) {
  std::map<int, int> n_blocks_by_window;
  float cap = 0.0f;
  for (const model::Op& op : b.ops) {
    if (op.kind != model::OpKind::kAttention) continue;
    ++n_blocks_by_window[op.window];
    cap = std::max(cap, op.soft_cap);
  }
  std::vector<std::string> parts;
  for (const auto& [window, n] : n_blocks_by_window) {
    if (n_blocks_by_window.size() == 1 && window == 0) continue;
    const std::string seen = window == 0 ? "all" : fmt::format("the last {}", window);
    parts.push_back(fmt::format("{} block{} see{} {} positions", n, n == 1 ? "" : "s",
                                n == 1 ? "s" : "", seen));
  }
  if (cap > 0.0f) parts.push_back(fmt::format("scores capped at {}", cap));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string experts_text(const model::Blueprint& b) {
  if (b.n_experts == 0) return "";
  const auto width_of = [&](model::OpKind kind, std::string_view part) {
    for (const model::Op& op : b.ops) {
      if (op.kind != kind) continue;
      const auto& name = b.weights[static_cast<size_t>(op.weight)].name;
      if (name.find(part) == std::string::npos) continue;
      return b.values[static_cast<size_t>(op.output)].width;
    }
    return 0;
  };
  std::string text = fmt::format(
      "{} of width {} in each block, {} for each token", b.n_experts,
      width_of(model::OpKind::kExpertLinear, "ffn_up_exps") / b.n_experts_used, b.n_experts_used);
  const int shared = width_of(model::OpKind::kLinear, "ffn_up_shexp");
  if (shared > 0) text += fmt::format(", one of width {} for all", shared);
  return text;
}

void print_model(const gguf::File& file) {
  // A file that this program cannot run can still be looked at.
  try {
    const model::Blueprint b = model::read(file);
    print(
        fmt::format("\nmodel: {} blocks, width {}, {} heads of {} over {} key/value heads, "
                    "FFN {}, vocabulary {}, context {}\n",
                    b.n_layers, b.width, b.n_heads, b.head_dim, b.n_kv_heads, b.ffn_width,
                    b.n_vocab, b.trained_context));
    const std::pair<const char*, std::string> more[] = {
        {"attention", attention_text(b)},
        {"experts", experts_text(b)},
        {"predictors", b.predictors.empty()
                           ? ""
                           : fmt::format("of the active neurons, in {} blocks, which this program "
                                         "does not use ('troika neurons' fits its own)",
                                         b.predictors.size())}};
    for (const auto& [name, text] : more) {
      if (!text.empty()) print(fmt::format("{}: {}\n", name, text));
    }
  } catch (const Error& error) {
    print(fmt::format("\nThis program cannot run it: {}\n", message_of(error)));
  }
}

void print_types(const gguf::File& file) {
  struct Sum {
    size_t n = 0, elements = 0, bytes = 0;
  };
  std::map<std::string, Sum> sums;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    Sum& sum = sums[tensor::type_name(tensor.type)];
    sum.n += 1;
    sum.elements += tensor.n_elements();
    sum.bytes += tensor.bytes;
  }
  print("\ntype          tensors       elements        bytes\n");
  for (const auto& [name, sum] : sums) {
    print(fmt::format("{:<12} {:>8} {:>14} {:>12}\n", name, sum.n, sum.elements,
                      bytes_text(sum.bytes)));
  }
}

void inspect(const InspectFlags& flags) {
  const gguf::File file = gguf::File::open(flags.model);
  if (flags.json) return print_file_json(file);
  print(fmt::format("{}: GGUF version {}, {}, {} tensors\n", file.path(), file.version(),
                    bytes_text(file.file_bytes()), file.tensors().size()));
  print_model(file);
  print("\n");
  for (const gguf::File::Entry& entry : file.metadata()) {
    print_entry(entry, flags.all);
  }
  print_types(file);
  if (!flags.tensors) {
    print("\n--tensors lists every tensor.\n");
    return;
  }
  print("\n");
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    print(fmt::format("{:<40} {:<6} {:>20} {:>12}\n", terminal_text(tensor.name),
                      tensor::type_name(tensor.type), shape_text(tensor),
                      bytes_text(tensor.bytes)));
  }
}

}  // namespace

void add_inspect(Command& app) {
  Command* command = app.add_subcommand("inspect", "Show what a model file holds", kUseGroup);
  auto flags = std::make_shared<InspectFlags>();
  add_model(*command, "MODEL", flags->model)->required();
  command->add_flag("--tensors", flags->tensors, "List every tensor");
  command->add_flag("--all", flags->all, "Show arrays and long strings whole");
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags, command] {
    for (const char* name : {"--tensors", "--all"}) {
      note_idle_option(*command, name, flags->json, "--json shows everything");
    }
    inspect(*flags);
  });
}

}  // namespace troika::cli
