#include "schedule/cut/lower_ranges.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "base/error.h"
#include "schedule/graphs.h"

namespace troika::schedule {
namespace {

using lanes::Range;
using model::OpKind;

// One range for each part.
using Ranges = std::vector<Range>;

bool goes_by_element(const model::Op& op) {
  return op.kind == OpKind::kGate || op.kind == OpKind::kActivate || op.kind == OpKind::kAdd ||
         op.kind == OpKind::kSoftCap;
}

// Says whether ranges stand one behind the other from 0 to n.
bool is_row_of(Ranges ranges, int n) {
  std::erase_if(ranges, [](const Range& range) { return range.begin == range.end; });
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  int end = 0;
  for (const Range& range : ranges) {
    if (range.begin != end || range.end < range.begin) return false;
    end = range.end;
  }
  return end == n;
}

// Says whether the parts' rectangles of rows and tokens cover n rows times all tokens, without gap
// or overlap.
bool is_tiled(const RangeCut& parts, const Ranges& ranges, int n) {
  std::vector<int> borders = {0, Range::kEnd};
  for (const LaneRanges& part : parts) {
    if (part.tokens.begin < 0 || part.tokens.end < part.tokens.begin) return false;
    borders.push_back(part.tokens.begin);
    borders.push_back(part.tokens.end);
  }
  std::sort(borders.begin(), borders.end());
  for (size_t i = 1; i < borders.size(); ++i) {
    if (borders[i - 1] == borders[i]) continue;
    Ranges here;
    for (size_t p = 0; p < parts.size(); ++p) {
      const Range& tokens = parts[p].tokens;
      if (tokens.begin <= borders[i - 1] && tokens.end >= borders[i]) here.push_back(ranges[p]);
    }
    if (!is_row_of(std::move(here), n)) return false;
  }
  return true;
}

class RangesLowering {
 public:
  RangesLowering(const lanes::Subgraph& whole, int lane, const RangeCut& parts)
      : whole_(whole), lane_(lane), parts_(parts) {}

  std::vector<Piece> take() {
    const bool has_heads = std::any_of(parts_.begin(), parts_.end(),
                                       [](const LaneRanges& part) { return !part.heads.is_all(); });
    const bool has_rows = std::any_of(parts_.begin(), parts_.end(),
                                      [](const LaneRanges& part) { return !part.rows.empty(); });
    if (whole_.is_dynamic()) {
      divide_heads();
    } else if (has_heads) {
      refuse("names heads, which only attention has");
    } else if (has_rows) {
      divide_rows();
    } else {
      divide_tokens();
    }
    return std::move(pieces_);
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(fmt::format("The cut of '{}' {}. Correct it, or leave it out of the plan.",
                            whole_.name, why));
  }

  int add(std::span<const model::Op> ops, int lane, lanes::Slice slice) {
    lanes::Subgraph subgraph = whole_;
    subgraph.ops = ops;
    subgraph.slice = std::move(slice);
    pieces_.push_back({std::move(subgraph), lane, before_});
    return static_cast<int>(pieces_.size()) - 1;
  }

  void divide_heads() {
    const int n_heads = whole_.blueprint->n_kv_heads;
    Ranges heads;
    for (const LaneRanges& part : parts_) {
      if (!part.tokens.is_all() || !part.rows.empty()) {
        refuse("divides attention by more than heads");
      }
      heads.push_back(part.heads.is_all() ? Range{0, n_heads} : part.heads);
    }
    if (!is_tiled(parts_, heads, n_heads)) {
      refuse(fmt::format("does not name each of {} heads of keys and values once", n_heads));
    }
    for (size_t p = 0; p < parts_.size(); ++p) {
      if (heads[p].size() == 0) continue;
      lanes::Slice slice;
      slice.heads = heads[p];
      add(whole_.ops, parts_[p].lane, std::move(slice));
    }
  }

  void divide_tokens() {
    if (!is_tiled(parts_, Ranges(parts_.size(), {0, 1}), 1)) {
      refuse("does not name each token once");
    }
    for (const LaneRanges& part : parts_) {
      if (part.tokens.size() == 0) continue;
      lanes::Slice slice;
      slice.tokens = part.tokens;
      add(whole_.ops, part.lane, std::move(slice));
    }
  }

  void divide_rows() {
    const std::span<const model::Op> ops = whole_.ops;
    read_rows();
    for (size_t begin = 0; begin < ops.size();) {
      size_t end = begin + 1;
      if (is_product(ops[begin])) {
        std::vector<Ranges> columns;
        end = end_of_group(begin, &columns);
        add_group(begin, end, columns);
      } else {
        while (end < ops.size() && !is_product(ops[end])) ++end;
        before_ = {add(ops.subspan(begin, end - begin), lane_, {})};
      }
      begin = end;
    }
  }

  // Checks and stores the rows of each product.
  void read_rows() {
    size_t n_products = 0;
    rows_.resize(whole_.ops.size());
    for (size_t i = 0; i < whole_.ops.size(); ++i) {
      if (!is_product(whole_.ops[i])) continue;
      const size_t product = n_products++;
      const int n = whole_.blueprint->weights[static_cast<size_t>(whole_.ops[i].weight)].n_rows;
      for (const LaneRanges& part : parts_) {
        Range rows = {0, n};
        if (!part.rows.empty()) {
          if (product >= part.rows.size()) refuse("names rows for too few products");
          rows = part.rows[product];
          if (rows.end == Range::kEnd) rows.end = n;
        }
        if (rows.begin % lanes::Slice::kRowGranularity != 0 && rows.size() != 0) {
          refuse(fmt::format("begins with row {} of '{}', which is no multiple of {}", rows.begin,
                             op_name(*whole_.blueprint, whole_.ops[i]),
                             lanes::Slice::kRowGranularity));
        }
        rows_[i].push_back(rows.size() == 0 ? Range{0, 0} : rows);
      }
      if (!is_tiled(parts_, rows_[i], n)) {
        refuse(
            fmt::format("does not make up '{}': each of its {} rows must be multiplied with "
                        "each token once",
                        op_name(*whole_.blueprint, whole_.ops[i]), n));
      }
    }
    for (const LaneRanges& part : parts_) {
      if (part.rows.size() > n_products) refuse("names rows for too many products");
    }
  }

  // Finds the products of one input that stand together, and the ops behind them that go on element
  // by element. Adds the ranges of each op's output. Returns where the group ends.
  size_t end_of_group(size_t begin, std::vector<Ranges>* columns) const {
    const std::span<const model::Op> ops = whole_.ops;
    const model::ValueId input = ops[begin].inputs[0];
    TROIKA_ASSERT(ops[begin].output != input);
    std::map<model::ValueId, Ranges> touched;  // how the parts read or write values of the group
    std::vector<model::ValueId> made;
    size_t end = begin;
    for (; end < ops.size() && is_product(ops[end]); ++end) {
      const model::Op& op = ops[end];
      if (op.inputs[0] != input || op.output == input || touched.count(op.output) > 0) break;
      touched[op.output] = rows_[end];
      made.push_back(op.output);
      columns->push_back(rows_[end]);
    }
    for (; end < ops.size() && goes_by_element(ops[end]); ++end) {
      const model::Op& op = ops[end];
      if (op.output == input) break;  // other parts may still read the input
      const auto first = std::find_if(op.inputs.begin(), op.inputs.end(), [&](model::ValueId id) {
        return std::find(made.begin(), made.end(), id) != made.end();
      });
      if (first == op.inputs.end()) break;
      const Ranges ranges = touched.at(*first);
      const auto fits = [&](model::ValueId id) {
        const auto at = touched.find(id);
        return id == model::kNone || at == touched.end() || at->second == ranges;
      };
      if (!std::all_of(op.inputs.begin(), op.inputs.end(), fits) || !fits(op.output)) break;
      for (const model::ValueId id : op.inputs) {
        if (id != model::kNone) touched[id] = ranges;
      }
      touched[op.output] = ranges;
      made.push_back(op.output);
      columns->push_back(ranges);
    }
    return end;
  }

  void add_group(size_t begin, size_t end, const std::vector<Ranges>& columns) {
    std::vector<int> group;
    for (size_t p = 0; p < parts_.size(); ++p) {
      lanes::Slice slice;
      slice.tokens = parts_[p].tokens;
      bool is_empty = true;
      for (const Ranges& of_op : columns) {
        slice.columns.push_back(of_op[p]);
        is_empty = is_empty && of_op[p].size() == 0;
      }
      if (is_empty || slice.tokens.size() == 0) continue;
      group.push_back(add(whole_.ops.subspan(begin, end - begin), parts_[p].lane, slice));
    }
    before_ = std::move(group);
  }

  const lanes::Subgraph& whole_;
  int lane_;
  const RangeCut& parts_;
  std::vector<Ranges> rows_;  // by op: a product's range for each part
  std::vector<Piece> pieces_;
  std::vector<int> before_;  // the pieces for which the next piece waits
};

}  // namespace

std::vector<Piece> lower_ranges(const lanes::Subgraph& subgraph, int lane, const RangeCut& parts) {
  TROIKA_ASSERT(subgraph.slice.is_all() && subgraph.role == lanes::Role::kWhole);
  return RangesLowering(subgraph, lane, parts).take();
}

}  // namespace troika::schedule
