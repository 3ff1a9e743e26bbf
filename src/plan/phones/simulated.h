// Which figure of a run on a phone stands beside which published one, as data: the files of the
// folder `simulated`. What a figure is and how it comes about, the room papers/ knows.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troika::plan {

// A figure by its name, and what it is asked for: a model, a number of tokens. Numbers stand as
// they are written.
struct FigureCall {
  std::string figure;
  std::map<std::string, std::string> with;

  bool has(const std::string& name) const { return with.count(name) > 0; }
  // Each function throws Error where the call has no such argument, or one of another form.
  const std::string& text(const std::string& name) const;
  double number(const std::string& name) const;
  int count(const std::string& name) const;
};

// A figure, or what it is beside another one.
struct FigureTerm {
  FigureCall of;
  std::optional<FigureCall> beside = std::nullopt;
};

// The kind of a row of which only the order of its values counts: a term stands for each of them.
inline constexpr const char* kOrderedRow = "order";

struct SimulatedRow {
  std::string id;             // of the published row
  std::string name = {};      // of its value, where it has several
  std::string kind = {};      // "value", "ratio", "range", kOrderedRow; none with a range together
  std::string part = {};      // as papers/test_rows.h calls it
  std::string inputs = {};    // a sentence for readers; figures may stand in it as {name:.1f}
  std::string reason = {};    // why the row does not count; empty: it counts
  std::string measured = {};  // what would be measured on this machine for it, if anything
  std::string as = {};        // what a term gives: see read_simulated
  std::string together = {};  // what several terms give: "mean", "geometric mean", "range", ...
  std::vector<FigureTerm> terms = {};  // none: nothing simulates the row, for a `reason`
};

// Rows that are printed together.
struct SimulatedGroup {
  std::string name;
  std::vector<SimulatedRow> rows = {};
  // The stack whose constants the rows set; empty: they set the phone's own.
  std::string stack = {};
  std::vector<std::string> constants = {};
  std::vector<std::string> equal_constants = {};  // that get the value of the first
  bool is_of_phone = false;
  std::string phone = {};  // where the rows were measured; empty: the 8 Gen 3
};

// A constant that is a published value, up to a factor of units.
struct TakenConstant {
  std::string id, name;
  std::string stack;  // empty: of the phone
  std::string constant;
  double factor = 1.0;  // value = constant times this
};

// Why a value of a row, or with an empty name any, has no figure beside it.
struct NotSimulated {
  std::string id, name, reason;
};

struct SimulatedFile {
  std::vector<SimulatedGroup> groups;
  std::vector<TakenConstant> taken;
  std::vector<NotSimulated> not_simulated;
};

// A row asks for a `figure` `with` arguments, of which each may be a list: there is a term for each
// combination. `beside` is another call, or several: one that names no figure is the row's own with
// other arguments. `as` says what a term gives: "times" (the usual), "percent", "percent more",
// "percent less" or "difference" where there are two, the figure itself where there is one. What a
// group says of kind, part and arguments holds for its rows. Throws Error that names file and row.
SimulatedFile read_simulated(const std::string& path);

}  // namespace troika::plan
