#include "cli/tune/cut_notes.h"

#include <fmt/format.h>

#include "base/units.h"

namespace troika::cli {
namespace {

// Returns "ffn_gate rows:0:3072,1:1024; ffn_down rows:1:4096", or for one cut of all products
// "rows:0:1,1:1".
std::string cuts_text(const std::vector<plan::TensorCut>& cuts) {
  std::string text;
  const plan::Shares* before = nullptr;
  for (const plan::TensorCut& cut : cuts) {
    // Products of one input are cut alike, and stand together.
    if (before != nullptr && *before == cut.rows && cut.tokens.empty()) continue;
    before = &cut.rows;
    if (!text.empty()) text += "; ";
    if (!cut.op.empty()) text += cut.op + " ";
    const std::string all = plan::cut_text(cut);
    text += all.substr(all.find('=') + 1);
  }
  return text;
}

std::string row_text(const std::string& what, const std::string& shape, const std::string& home,
                     double whole_us, const std::string& cut, double cut_us, bool is_taken) {
  std::string text =
      fmt::format("{:<10} {:>10}  {:<9} {:>9.3f}", what, shape, home, whole_us / kUsPerMs);
  if (cut.empty()) return text + "          -  nothing could be tried\n";
  return text + fmt::format("  {:>9.3f}  {}{}\n", cut_us / kUsPerMs,
                            is_taken ? "" : "not cut, best would be ", cut);
}

}  // namespace

std::string cut_notes_text(const std::vector<solve::CutNote>& notes,
                           const std::vector<solve::LengthFound>& lengths, const plan::Plan& plan) {
  if (notes.empty() && lengths.empty()) return "";
  std::string text = fmt::format("{:<10} {:>10}  {:<9} {:>9}  {:>9}  {}\n", "divided", "shape",
                                 "home", "whole ms", "parts ms", "how");
  for (const solve::CutNote& note : notes) {
    const plan::PlannedLane& home = plan.lanes[static_cast<size_t>(note.home)];
    text += row_text(note.subgraph,
                     fmt::format("{} {}", plan::phase_name(note.shape.phase), note.shape.n_rows),
                     plan::lane_text(home), note.found.whole_us, cuts_text(note.found.cuts),
                     note.found.us, note.found.is_worthwhile);
  }
  for (const solve::LengthFound& found : lengths) {
    text += row_text("length", fmt::format("prompt {}", found.n_tokens), "", found.padded_us,
                     found.tokens.empty() ? "" : plan::shares_text(found.tokens), found.us,
                     found.is_worthwhile);
  }
  return text;
}

}  // namespace troika::cli
