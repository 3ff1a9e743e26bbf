#include "papers/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace troika::papers {
namespace {

double published_value(const TestRows& rows, const std::string& id, const std::string& name) {
  for (const plan::PublishedValue& value : rows.row_of(id).values) {
    if (value.name == name && value.value) return *value.value;
  }
  throw Error(fmt::format("The published row '{}' has no value '{}'.", id, name));
}

std::string in_form(const std::string& form, double value, const std::string& id) {
  try {
    return fmt::format(fmt::runtime(form), value);
  } catch (const fmt::format_error& error) {
    throw Error(fmt::format("The inputs of row '{}' hold a figure in the form '{}' ({}).", id, form,
                            error.what()));
  }
}

double compared(double a, double b, const std::string& as) {
  if (as.empty() || as == "times") return a / b;
  if (as == "percent") return kPercent * (a / b);
  if (as == "percent more") return kPercent * (a / b - 1.0);
  if (as == "percent less") return kPercent * (1.0 - a / b);
  if (as == "difference") return a - b;
  throw Error(fmt::format("Two figures give no '{}'.", as));
}

TestKind kind_of(const plan::SimulatedRow& row) {
  if (row.together == "range" || row.kind == "range") return TestKind::kRange;
  if (row.kind == "value") return TestKind::kValue;
  if (row.kind == "ratio") return TestKind::kRatio;
  throw Error(fmt::format("The simulated row '{}' is of no kind '{}'.", row.id, row.kind));
}

TestSubject part_of(const plan::SimulatedRow& row) {
  if (row.part.empty()) return TestSubject::kRest;
  for (const TestSubject part : kTestSubjects) {
    if (row.part == subject_name(part)) return part;
  }
  throw Error(fmt::format("The simulated row '{}' is of no part '{}'.", row.id, row.part));
}

}  // namespace

void Figures::add(const std::string& name, std::vector<std::string> arguments, Function function) {
  known_[name] = {std::move(arguments), std::move(function)};
}

void Figures::add_published(const TestRows& rows) {
  add("published", {"row", "value"}, [&rows](const plan::FigureCall& call) {
    return published_value(rows, call.text("row"), call.has("value") ? call.text("value") : "");
  });
  add("published quotient", {"row", "by row", "by value"}, [&rows](const plan::FigureCall& call) {
    return published_value(rows, call.text("row"), "") /
           published_value(rows, call.text("by row"), call.text("by value"));
  });
}

const Figures::Entry& Figures::find(const std::string& name) const {
  const auto at = known_.find(name);
  if (at != known_.end()) return at->second;
  std::vector<std::string> names;
  for (const auto& [known, entry] : known_) names.push_back(known);
  throw Error(fmt::format("There is no figure '{}'; there are: {}.", name, fmt::join(names, ", ")));
}

double Figures::value(const plan::FigureCall& call) const {
  const Entry& entry = find(call.figure);
  for (const auto& [name, text] : call.with) {
    const auto& known = entry.arguments;
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw Error(fmt::format("The figure '{}' knows no '{}'; it knows: {}.", call.figure, name,
                              fmt::join(known, ", ")));
    }
  }
  return entry.function(call);
}

double Figures::value(const plan::FigureTerm& term, const std::string& as) const {
  const double of = value(term.of);
  if (term.beside) return compared(of, value(*term.beside), as);
  if (as.empty()) return of;
  throw Error(fmt::format("The figure '{}' stands alone and gives no '{}'.", term.of.figure, as));
}

std::vector<double> Figures::values(const plan::SimulatedRow& row) const {
  if (row.terms.empty()) throw Error(fmt::format("The row '{}' asks for no figure.", row.id));
  std::vector<double> all;
  all.reserve(row.terms.size());
  for (const plan::FigureTerm& term : row.terms) all.push_back(value(term, row.as));
  if (row.together.empty() && all.size() == 1) return all;
  const auto n = static_cast<double>(all.size());
  double sum = 0.0;
  if (row.together == "mean") {
    for (const double one : all) sum += one;
    return {sum / n};
  }
  if (row.together == "geometric mean") {
    for (const double one : all) sum += std::log(one);
    return {std::exp(sum / n)};
  }
  if (row.together == "range") {
    const auto [low, high] = std::minmax_element(all.begin(), all.end());
    return {*low, *high};
  }
  if (row.together == "lowest") return {*std::min_element(all.begin(), all.end())};
  if (row.together == "highest") return {*std::max_element(all.begin(), all.end())};
  throw Error(fmt::format("Several figures of row '{}' give no '{}'.", row.id, row.together));
}

std::string Figures::inputs(const plan::SimulatedRow& row) const {
  std::string text;
  if (row.terms.empty()) return row.inputs;
  size_t at = 0;
  for (size_t open; (open = row.inputs.find('{', at)) != std::string::npos;) {
    const size_t close = row.inputs.find('}', open);
    const size_t colon = row.inputs.find(':', open);
    if (close == std::string::npos || colon > close) {
      throw Error(fmt::format("The inputs of row '{}' hold a figure without a form.", row.id));
    }
    const std::string name = row.inputs.substr(open + 1, colon - open - 1);
    // The call gets those arguments of the row's own figures that this figure knows.
    plan::FigureCall call{name, {}};
    for (const std::string& argument : find(name).arguments) {
      const plan::FigureTerm& term = row.terms.front();
      if (term.beside && term.beside->has(argument)) {
        call.with[argument] = term.beside->text(argument);
      }
      if (term.of.has(argument)) call.with[argument] = term.of.text(argument);
    }
    const std::string form = "{" + row.inputs.substr(colon, close - colon + 1);
    text += row.inputs.substr(at, open - at) + in_form(form, value(call), row.id);
    at = close + 1;
  }
  return text + row.inputs.substr(at);
}

namespace {

// Adds an ordering for each two of a row's values: which of them is smaller.
void add_order(const plan::SimulatedRow& row, const Figures& figures, TestRows* rows) {
  const std::vector<plan::PublishedValue>& published = rows->row_of(row.id).values;
  if (published.size() != row.terms.size()) {
    throw Error(fmt::format("The row '{}' has {} values, and {} figures to stand beside them.",
                            row.id, published.size(), row.terms.size()));
  }
  std::vector<double> simulated;
  for (const plan::FigureTerm& term : row.terms) simulated.push_back(figures.value(term, row.as));
  for (size_t i = 0; i < published.size(); ++i) {
    for (size_t j = i + 1; j < published.size(); ++j) {
      if (!published[i].value || !published[j].value) continue;
      rows->add_ordering(
          fmt::format("{}: {} against {}", row.inputs, published[i].name, published[j].name),
          *published[i].value, *published[j].value, simulated[i], simulated[j]);
    }
  }
}

}  // namespace

void add_rows(const plan::SimulatedFile& file, const Figures& figures, TestRows* rows) {
  for (const plan::SimulatedGroup& group : file.groups) {
    for (const plan::SimulatedRow& row : group.rows) {
      if (row.kind == plan::kOrderedRow) {
        add_order(row, figures, rows);
        continue;
      }
      const std::vector<double> values =
          row.terms.empty() ? std::vector<double>() : figures.values(row);
      TestRow& added = rows->add(row.id, row.name, group.name.c_str(), kind_of(row),
                                 values.empty() ? 0.0 : values.front(), figures.inputs(row));
      if (values.empty()) added.base.simulated.reset();
      if (values.size() > 1) added.highest = values.back();
      added.part = part_of(row);
      added.reason = row.reason;
      added.measured_by = row.measured;
    }
  }
}

}  // namespace troika::papers
