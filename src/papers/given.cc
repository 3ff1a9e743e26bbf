#include "papers/given.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "papers/figures.h"
#include "plan/phones/published.h"

namespace troika::papers {
namespace {

constexpr double kMostCount = 1e9;

// Returns the row's value of that name; a row with one value needs none. Throws Error.
double given_number(const std::vector<plan::PublishedRow>& published, const plan::GivenValue& given,
                    const std::string& path) {
  const plan::PublishedRow* row = plan::find_row(published, given.id);
  if (row == nullptr) {
    throw Error(fmt::format("{}: '{}' is that of the published row '{}', which is not there.", path,
                            given.name, given.id));
  }
  for (const plan::PublishedValue& value : row->values) {
    if (value.name == given.value && value.value) return *value.value;
  }
  throw Error(
      fmt::format("{}: '{}' is the value '{}' of the published row '{}', which has no such "
                  "number.",
                  path, given.name, given.value, given.id));
}

void check_rows(const std::vector<plan::PublishedRow>& published, const plan::RowList& list,
                const std::string& path) {
  for (const std::string& id : list.ids) {
    if (plan::find_row(published, id) != nullptr) continue;
    throw Error(fmt::format("{}: the list '{}' has the published row '{}', which is not there.",
                            path, list.name, id));
  }
}

}  // namespace

Given::Given(const std::string& phones, const std::string& paper)
    : path_(fmt::format("{}/simulated/{}.json", phones, paper)) {
  plan::SimulatedFile file = plan::read_simulated(path_);
  const std::vector<plan::PublishedRow> published = plan::read_published(phones + "/published");
  for (plan::GivenValue& given : file.given) {
    if (!given.id.empty()) given.numbers = {given_number(published, given, path_)};
    numbers_[given.name] = std::move(given.numbers);
  }
  for (const plan::RowList& list : file.lists) check_rows(published, list, path_);
  lists_ = std::move(file.lists);
}

const std::vector<double>& Given::numbers(const std::string& name) const {
  const auto at = numbers_.find(name);
  if (at == numbers_.end()) {
    throw Error(fmt::format("{}: runs need '{}', which is not under 'given'.", path_, name));
  }
  return at->second;
}

double Given::number(const std::string& name) const {
  const std::vector<double>& all = numbers(name);
  if (all.size() != 1) {
    throw Error(fmt::format("{}: runs need one number as '{}', not {}.", path_, name, all.size()));
  }
  return all.front();
}

double Given::share(const std::string& name) const {
  const double percent = number(name);
  if (percent < 0.0 || percent > kPercent) {
    throw Error(fmt::format("{}: '{}' is {:g} and no percentage.", path_, name, percent));
  }
  return percent / kPercent;
}

int Given::count(const std::string& name) const {
  number(name);
  return counts(name).front();
}

std::vector<int> Given::counts(const std::string& name) const {
  std::vector<int> all;
  for (const double number : numbers(name)) {
    if (number != std::floor(number) || number < 1.0 || number > kMostCount) {
      throw Error(fmt::format("{}: '{}' is {:g} and no count.", path_, name, number));
    }
    all.push_back(static_cast<int>(number));
  }
  return all;
}

const std::vector<std::string>& Given::rows(const std::string& name) const {
  for (const plan::RowList& list : lists_) {
    if (list.name == name) return list.ids;
  }
  throw Error(
      fmt::format("{}: runs need the rows '{}', which are not under 'lists'.", path_, name));
}

std::string Given::why_not_counted(std::string_view id) const {
  for (const plan::RowList& list : lists_) {
    const bool is_there = std::find(list.ids.begin(), list.ids.end(), id) != list.ids.end();
    if (is_there && !list.reason.empty()) return list.reason;
  }
  return {};
}

}  // namespace troika::papers
