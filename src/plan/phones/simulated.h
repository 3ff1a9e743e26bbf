// Says which figure of a run on a phone stands beside which published one, as data: the files of
// the folder `simulated`. What a figure is and how it is computed, the room papers/ knows.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troika::plan {

// Names a figure and its arguments: a model, a number of tokens. Numbers are texts, as they are
// written in the file.
struct FigureCall {
  std::string figure;
  std::map<std::string, std::string> with;

  // Says whether the call has such an argument.
  bool has(const std::string& name) const { return with.count(name) > 0; }
  // Each of these throws Error where the call has no such argument, or one of another form.
  const std::string& text(const std::string& name) const;
  double number(const std::string& name) const;
  int count(const std::string& name) const;
};

// A figure, or its quotient or difference with another one.
struct FigureTerm {
  FigureCall of;
  std::optional<FigureCall> beside = std::nullopt;
};

// Is the kind of a row of which only the order of its values counts. It has a term for each value.
inline constexpr const char* kOrderedRow = "order";

struct SimulatedRow {
  std::string id;         // the published row's id
  std::string name = {};  // names the row's value, where it has several
  // "value", "ratio", "range" or kOrderedRow; empty where `together` is "range".
  std::string kind = {};
  std::string part = {};    // one of the parts of papers/test_rows.h
  std::string inputs = {};  // a sentence for readers; figures may stand in it as {name:.1f}
  std::string reason = {};  // tells why the row does not count; empty: it counts
  // Says what would be measured on this machine for the row, if anything.
  std::string measured = {};
  std::string as = {};  // says what a term gives: see read_simulated
  // Says what several terms give: "mean", "geometric mean", "range", ...
  std::string together = {};
  std::vector<FigureTerm> terms = {};  // empty: nothing simulates the row, for a `reason`
};

// Rows that are printed together.
struct SimulatedGroup {
  std::string name;
  std::vector<SimulatedRow> rows = {};
  // The stack whose constants the rows set; empty: the rows set constants of the phone.
  std::string stack = {};
  std::vector<std::string> constants = {};
  // Names constants that get the value of the first one.
  std::vector<std::string> equal_constants = {};
  bool is_of_phone = false;
  std::string phone = {};  // where the rows were measured; empty: the 8 Gen 3
};

// A constant that is a published value, up to a factor for its unit.
struct TakenConstant {
  std::string id, name;
  std::string stack;  // empty: the constant is the phone's
  std::string constant;
  double factor = 1.0;  // the value is the constant times this
};

// Says why a value of a row has no figure beside it. An empty name stands for all values of the
// row.
struct NotSimulated {
  std::string id, name, reason;
};

// What runs are given under a name: a published value, or numbers that are printed elsewhere in the
// paper or stand for what it does not print.
struct GivenValue {
  std::string name;
  std::string id = {}, value = {};   // name the published row and its value; empty id: `numbers`
  std::vector<double> numbers = {};  // empty where the row has the value
  std::string why = {};              // says where numbers are from; a row needs no reason
};

// Published rows that are asked for together, by a name.
struct RowList {
  std::string name;
  std::vector<std::string> ids;
  std::string reason = {};  // tells why the rows do not count; empty: the list says nothing of it
};

struct SimulatedFile {
  std::vector<SimulatedGroup> groups;
  std::vector<TakenConstant> taken;
  std::vector<NotSimulated> not_simulated;
  std::vector<GivenValue> given = {};
  std::vector<RowList> lists = {};
};

// Reads such a file. A row asks for a `figure` `with` arguments, each of which may be a list: there
// is a term for each combination. `beside` is another call, or several; a call that names no figure
// has the row's own figure with other arguments. `as` says what a term gives: "times" (the usual),
// "percent", "percent more", "percent less" or "difference" where there are two figures, the figure
// itself where there is one. What a group says of kind, part and arguments holds for its rows.
// Throws Error that names file and row, or the name that is given twice.
SimulatedFile read_simulated(const std::string& path);

}  // namespace troika::plan
