#include "kernels/choose.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/reference/reference.h"
#if defined(__x86_64__)
#include "kernels/x86/x86.h"
#elif defined(__aarch64__)
#include "kernels/arm/arm.h"
#endif

namespace troika::kernels {

const char* column_form_name(ColumnForm form) {
  switch (form) {
    case ColumnForm::kOffsetNibbles:
      return "offset nibbles";
    case ColumnForm::kBytes:
      return "bytes";
    case ColumnForm::kNibbles:
      return "nibbles";
    case ColumnForm::kWideBytes:
      return "wide bytes";
    case ColumnForm::kFloats:
      return "floats";
    case ColumnForm::kHalves:
      return "halves";
  }
  return "";
}

namespace {

// Calls visit(name, mine, theirs) for each function that the two tables have for each type.
template <typename Visit>
void visit_functions_by_type(Table& mine, const Table& theirs, Visit visit) {
  const auto visit_all = [&](const char* name, auto& of_mine, const auto& of_theirs) {
    for (const tensor::TypeInfo& info : tensor::type_table()) {
      const auto i = static_cast<size_t>(info.type);
      visit(std::string(name) + " " + info.name, of_mine[i], of_theirs[i]);
    }
  };
  visit_all("matmul_f32", mine.matmul_f32, theirs.matmul_f32);
  visit_all("matmul_q8", mine.matmul_q8, theirs.matmul_q8);
  visit_all("unpack_bf16", mine.unpack_bf16, theirs.unpack_bf16);
  visit_all("largest_of_row", mine.largest_of_row, theirs.largest_of_row);
  visit_all("unpack_int8", mine.unpack_int8, theirs.unpack_int8);
  visit_all("matmul_q8_strips", mine.matmul_q8_strips, theirs.matmul_q8_strips);
  visit_all("spread_token", mine.spread_token, theirs.spread_token);
  visit_all("matmul_spread", mine.matmul_spread, theirs.matmul_spread);
  visit_all("unpack_bf16_strips", mine.unpack_bf16_strips, theirs.unpack_bf16_strips);
  visit_all("unpack_int8_strips", mine.unpack_int8_strips, theirs.unpack_int8_strips);
}

// Visits all functions of the tables, those for each type and the others.
template <typename Visit>
void visit_functions(Table& mine, const Table& theirs, Visit visit) {
  visit_functions_by_type(mine, theirs, visit);
  for (size_t i = 0; i < kColumnForms; ++i) {
    visit(std::string("add_columns ") + column_form_name(static_cast<ColumnForm>(i)),
          mine.add_columns[i], theirs.add_columns[i]);
  }
  visit("matmul_int8", mine.matmul_int8, theirs.matmul_int8);
  visit("matmul_bf16", mine.matmul_bf16, theirs.matmul_bf16);
  visit("quantize_int8", mine.quantize_int8, theirs.quantize_int8);
  visit("quantize_int8_within", mine.quantize_int8_within, theirs.quantize_int8_within);
  visit("add_outliers", mine.add_outliers, theirs.add_outliers);
  visit("multiply_channels", mine.multiply_channels, theirs.multiply_channels);
  visit("narrow_bf16", mine.narrow_bf16, theirs.narrow_bf16);
  visit("quantize_activations", mine.quantize_activations, theirs.quantize_activations);
  visit("rms_norm", mine.rms_norm, theirs.rms_norm);
  visit("layer_norm", mine.layer_norm, theirs.layer_norm);
  visit("rope_normal", mine.rope_normal, theirs.rope_normal);
  visit("rope_neox", mine.rope_neox, theirs.rope_neox);
  visit("silu_mul", mine.silu_mul, theirs.silu_mul);
  visit("gelu_mul", mine.gelu_mul, theirs.gelu_mul);
  visit("relu_mul", mine.relu_mul, theirs.relu_mul);
  visit("silu", mine.silu, theirs.silu);
  visit("gelu", mine.gelu, theirs.gelu);
  visit("relu", mine.relu, theirs.relu);
  visit("add", mine.add, theirs.add);
  visit("scale", mine.scale, theirs.scale);
  visit("soft_cap", mine.soft_cap, theirs.soft_cap);
  visit("exp", mine.exp, theirs.exp);
  visit("softmax", mine.softmax, theirs.softmax);
  visit("argmax", mine.argmax, theirs.argmax);
  visit("count_above", mine.count_above, theirs.count_above);
  visit("find_above", mine.find_above, theirs.find_above);
  visit("attention", mine.attention, theirs.attention);
  visit("attention_segment", mine.attention_segment, theirs.attention_segment);
  visit("attention_merge", mine.attention_merge, theirs.attention_merge);
  visit("attention_tile", mine.attention_tile, theirs.attention_tile);
  visit("weigh_scores", mine.weigh_scores, theirs.weigh_scores);
  visit("raise_largest", mine.raise_largest, theirs.raise_largest);
  visit("mark_first", mine.mark_first, theirs.mark_first);
  visit("pack_values", mine.pack_values, theirs.pack_values);
  visit("store_kv", mine.store_kv, theirs.store_kv);
  visit("load_kv", mine.load_kv, theirs.load_kv);
}

std::string names_of(std::span<const Implementation> list) {
  std::string names;
  for (const Implementation& implementation : list) {
    names += (names.empty() ? "" : ", ") + std::string(implementation.name);
  }
  return names;
}

// Returns the part of the list that begins with `name`.
std::span<const Implementation> from(std::string_view name, CpuFeatures available) {
  const std::span<const Implementation> all = implementations();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Implementation& i) { return name == i.name; });
  if (found == all.end()) {
    throw UsageError("There are no kernels named '" + std::string(name) +
                     "' in this build. It has: " + names_of(all) + ".");
  }
  if (!available.has_all(found->needs)) {
    throw UsageError("This processor cannot run the kernels '" + std::string(name) +
                     "': they need " + to_string(found->needs) + ". Choose others or none.");
  }
  return all.subspan(static_cast<size_t>(found - all.begin()));
}

}  // namespace

std::span<const Implementation> implementations() {
  static const Implementation kImplementations[] = {
#if defined(__x86_64__)
    {"amx", x86::kAmxNeeds, &x86::kAmxTable},
    {"avx512_bf16", x86::kAvx512Bf16Needs, &x86::kAvx512Bf16Table},
    {"avx512", x86::kAvx512Needs, &x86::kAvx512Table},
    {"avx_vnni", x86::kAvxVnniNeeds, &x86::kAvxVnniTable},
    {"avx2", x86::kAvx2Needs, &x86::kAvx2Table},
#elif defined(TROIKA_NEON_KERNELS)
#ifdef TROIKA_I8MM_KERNELS
    {"i8mm", arm::kI8mmNeeds, &arm::kI8mmTable},
#endif
    {"neon", arm::kNeonNeeds, &arm::kNeonTable},
#endif
    {"reference", CpuFeatures(), &reference::kTable},
  };
  return kImplementations;
}

Kernels choose(CpuFeatures available, std::string_view only) {
  Kernels kernels;
  for (const Implementation& implementation :
       only.empty() ? implementations() : from(only, available)) {
    if (!available.has_all(implementation.needs)) continue;
    if (kernels.table.turned_from == 0)
      kernels.table.turned_from = implementation.table->turned_from;
    visit_functions(kernels.table, *implementation.table,
                    [&](const std::string& name, auto& mine, auto theirs) {
                      if (mine != nullptr || theirs == nullptr) return;
                      mine = theirs;
                      kernels.choices.push_back({name, implementation.name});
                    });
  }
  return kernels;
}

std::string_view source_of(const Kernels& kernels, std::string_view function) {
  for (const KernelChoice& choice : kernels.choices) {
    if (choice.function == function) return choice.implementation;
  }
  return "";
}

std::string describe(const Kernels& kernels) {
  std::string text;
  for (const Implementation& implementation : implementations()) {
    std::string functions;
    for (const KernelChoice& choice : kernels.choices) {
      if (choice.implementation != std::string_view(implementation.name)) continue;
      functions += (functions.empty() ? "" : ", ") + choice.function;
    }
    if (!functions.empty()) text += std::string(implementation.name) + ": " + functions + "\n";
  }
  return text;
}

}  // namespace troika::kernels
