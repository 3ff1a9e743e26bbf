#include "papers/micro/micro.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/hash.h"
#include "base/median.h"
#include "papers/micro/micro_figures.h"
#include "solve/fit.h"

namespace troika::papers {
namespace {

constexpr const char* kPhone8Gen2 = "8gen2";

std::string full_name(const plan::SimulatedRow& value) {
  return value.name.empty() ? value.id : value.id + "/" + value.name;
}

const plan::PublishedRow& row_of(const PhoneFolder& folder, const std::string& id) {
  const plan::PublishedRow* row = plan::find_row(folder.published, id);
  if (row == nullptr) {
    throw Error(fmt::format("{}/published has no row '{}', which the phone is fitted to.",
                            folder.path, id));
  }
  return *row;
}

const plan::PublishedValue& value_of(const PhoneFolder& folder,
                                     const plan::SimulatedRow& simulated) {
  const plan::PublishedRow& row = row_of(folder, simulated.id);
  for (const plan::PublishedValue& value : row.values) {
    if (value.name == simulated.name) return value;
  }
  throw Error(fmt::format("{}/published: row '{}' has no value '{}'.", folder.path, simulated.id,
                          simulated.name));
}

double simulate(const lanes::CostModel& model, const plan::SimulatedRow& row) {
  return micro_figures(model).values(row).front();
}

double log_error(const plan::PublishedValue& value, double simulated) {
  if (value.high < 0.0) {  // a negative value is a loss, and is compared as one
    plan::PublishedValue loss = value;
    loss.low = -value.high;
    loss.high = -value.low;
    return log_error(loss, -simulated);
  }
  if (simulated >= value.low && simulated <= value.high) return 0.0;
  if (simulated <= 0.0) return -10.0;
  if (simulated < value.low) return std::log(simulated / value.low);
  return std::log(simulated / value.high);
}

plan::Field find_field(const std::vector<plan::Field>& fields, const std::string& name) {
  for (const plan::Field& field : fields) {
    if (field.name == name) return field;
  }
  throw Error(fmt::format("There is no constant '{}'.", name));
}

// Scales bandwidths of a part without measurements like those that were fitted. Returns what
// changed.
std::vector<plan::Field> rescale_memory(PhoneFolder& folder, plan::Phone& other) {
  const std::vector<plan::Field> from = folder.phone.fields();
  const std::vector<plan::Field> to = other.fields();
  std::vector<plan::Field> changed;
  for (const char* name :
       {"memory.reached_gb_s", "memory.cpu_gb_s", "memory.gpu_gb_s", "memory.npu_gb_s"}) {
    const double scaled = find_field(from, name).constant->value * other.memory.relative_rate;
    find_field(to, name).constant->value = std::stod(fmt::format("{:.4g}", scaled));
    changed.push_back(find_field(to, name));
  }
  return changed;
}

// Returns the stack of that name, which something in phones/simulated/micro.json or in a stack
// names. Throws Error where the folder has no such stack.
template <typename Folder>
auto& stack_of(Folder& folder, const std::string& name, const std::string& who) {
  const auto at = folder.stacks.find(name);
  if (at != folder.stacks.end()) return at->second;
  throw Error(fmt::format("{}: {} names the stack '{}', which is not in its folder 'stacks'.",
                          folder.path, who, name));
}

template <typename Folder>
auto& stack_of(Folder& folder, const plan::SimulatedGroup& group) {
  return stack_of(folder, group.stack,
                  fmt::format("the group '{}' of simulated/micro.json", group.name));
}

lanes::CostModel model_of(const PhoneFolder& folder, const plan::SimulatedGroup& group) {
  const plan::Stack& stack = stack_of(folder, group);
  return {group.phone == kPhone8Gen2 ? folder.phone_8gen2 : folder.phone, stack};
}

// Returns which split each value of the group belongs to.
std::vector<Split> splits(const plan::SimulatedGroup& group) {
  std::vector<Split> all(group.rows.size(), Split::kFit);
  if (group.constants.empty()) return std::vector<Split>(group.rows.size(), Split::kHeldOut);
  std::vector<std::string> names;
  std::vector<size_t> places;
  for (size_t i = 0; i < group.rows.size(); ++i) {
    if (!group.rows[i].reason.empty()) {
      all[i] = Split::kNone;
      continue;
    }
    names.push_back(full_name(group.rows[i]));
    places.push_back(i);
  }
  if (names.size() > group.constants.size()) {
    for (const size_t i : held_out(names)) all[places[i]] = Split::kHeldOut;
  }
  // With no more rows than constants, their errors are 0 by construction.
  const auto n_fit = static_cast<size_t>(std::count(all.begin(), all.end(), Split::kFit));
  if (n_fit <= group.constants.size()) {
    std::replace(all.begin(), all.end(), Split::kFit, Split::kTaken);
  }
  return all;
}

std::vector<plan::Field> fields_of(PhoneFolder& folder, const plan::SimulatedGroup& group) {
  return group.is_of_phone ? folder.phone.fields() : stack_of(folder, group).fields();
}

void set_constants(PhoneFolder& folder, const plan::SimulatedGroup& group,
                   const std::vector<double>& values) {
  const std::vector<plan::Field> fields = fields_of(folder, group);
  for (size_t i = 0; i < values.size(); ++i) {
    const plan::Field field = find_field(fields, group.constants[i]);
    field.constant->value = std::clamp(values[i], field.least, field.most);
  }
  for (const std::string& name : group.equal_constants) {
    find_field(fields, name).constant->value = values.front();
  }
}

void fit_group(PhoneFolder& folder, const plan::SimulatedGroup& group) {
  const std::vector<Split> split = splits(group);
  const std::vector<plan::Field> fields = fields_of(folder, group);
  std::vector<double> constants;
  for (const std::string& name : group.constants) {
    constants.push_back(find_field(fields, name).constant->value);
  }
  std::vector<std::string> ids;
  for (size_t i = 0; i < split.size(); ++i) {
    const bool is_used = split[i] == Split::kFit || split[i] == Split::kTaken;
    const bool is_known = std::find(ids.begin(), ids.end(), group.rows[i].id) != ids.end();
    if (is_used && !is_known) ids.push_back(group.rows[i].id);
  }
  const auto residuals = [&](const std::vector<double>& tried) {
    set_constants(folder, group, tried);
    const lanes::CostModel model = model_of(folder, group);
    std::vector<double> errors;
    for (size_t i = 0; i < split.size(); ++i) {
      if (split[i] != Split::kFit && split[i] != Split::kTaken) continue;
      errors.push_back(log_error(value_of(folder, group.rows[i]), simulate(model, group.rows[i])));
    }
    return errors;
  };
  solve::fit(constants, residuals);
  // Constants are rounded as files have them, to what a person can read.
  for (double& c : constants) c = std::stod(fmt::format("{:.6g}", c));
  set_constants(folder, group, constants);
  std::vector<std::string> names = group.constants;
  names.insert(names.end(), group.equal_constants.begin(), group.equal_constants.end());
  for (const std::string& name : names) {
    find_field(fields, name).constant->source = fmt::format("fitted to {}", fmt::join(ids, ", "));
  }
}

void add_taken(PhoneFolder& folder, MicroReport& report) {
  for (const plan::TakenConstant& taken : folder.micro.taken) {
    const auto fields =
        taken.stack.empty()
            ? folder.phone.fields()
            : stack_of(folder, taken.stack, fmt::format("what is taken from '{}'", taken.id))
                  .fields();
    MicroRow row{&row_of(folder, taken.id), &value_of(folder, {taken.id, taken.name}),
                 "taken as it is"};
    row.split = Split::kTaken;
    row.simulated = find_field(fields, taken.constant).constant->value * taken.factor;
    row.inputs =
        fmt::format("{} of {}", taken.constant, taken.stack.empty() ? "the phone" : taken.stack);
    report.rows.push_back(std::move(row));
  }
}

// Returns the first reason that holds for the value.
std::string reason_not_simulated(const PhoneFolder& folder, const std::string& id,
                                 const std::string& name) {
  for (const plan::NotSimulated& reason : folder.micro.not_simulated) {
    if (reason.id == id && (reason.name.empty() || reason.name == name)) return reason.reason;
  }
  return "the model has no constant for it yet";
}

void add_not_simulated(const PhoneFolder& folder, MicroReport& report) {
  for (const plan::PublishedRow& row : folder.published) {
    if (row.use != "calibrate") continue;
    for (const plan::PublishedValue& value : row.values) {
      const bool is_there =
          std::any_of(report.rows.begin(), report.rows.end(),
                      [&](const MicroRow& other) { return other.value == &value; });
      if (is_there) continue;
      MicroRow missing{&row, &value, "not simulated"};
      missing.inputs = reason_not_simulated(folder, row.id, value.name);
      report.rows.push_back(std::move(missing));
    }
  }
}

using NamesOfStacks = std::map<std::string, std::vector<std::string>>;

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Gives a stack that measured nothing of its own the constants of the stack that did. Constants
// that it declares as assumed otherwise stay. Adds the borrowed ones to `changed`.
void borrow(PhoneFolder& folder, NamesOfStacks& changed) {
  for (const plan::SimulatedGroup& group : folder.micro.groups) {
    if (group.is_of_phone) continue;
    for (auto& [name, stack] : folder.stacks) {
      if (!stack.like.empty()) continue;
      for (const std::string& constant : group.constants) {
        const plan::Field to = find_field(stack.fields(), constant);
        const bool is_fitted = plan::source_kind(to.constant->source) == plan::SourceKind::kFitted;
        if (!is_fitted || contains(changed[name], constant)) continue;
        *to.constant = *find_field(stack_of(folder, group).fields(), constant).constant;
        changed[name].push_back(constant);
      }
    }
  }
  for (auto& [name, stack] : folder.stacks) {
    if (stack.like.empty()) continue;
    const std::vector<plan::Field> from =
        stack_of(folder, stack.like, fmt::format("the stack '{}'", name)).fields();
    for (const plan::Field& field : stack.fields()) {
      const bool is_fitted = plan::source_kind(field.constant->source) == plan::SourceKind::kFitted;
      if (!is_fitted || contains(changed[name], field.name)) continue;
      *field.constant = *find_field(from, field.name).constant;
    }
  }
}

std::vector<double> errors_of(const MicroReport& report, Split split) {
  std::vector<double> errors;
  for (const MicroRow& row : report.rows) {
    if (row.split == split && row.error()) errors.push_back(std::abs(*row.error()));
  }
  std::sort(errors.begin(), errors.end());
  return errors;
}

}  // namespace

std::vector<size_t> held_out(const std::vector<std::string>& names) {
  std::vector<size_t> order(names.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return hash_of(names[a]) < hash_of(names[b]); });
  order.resize(names.size() / 3);
  return order;
}

PhoneFolder read_phone_folder(const std::string& path) {
  PhoneFolder folder;
  folder.path = path;
  folder.phone = plan::read_phone(path + "/8gen3.json");
  folder.phone_8gen2 = plan::read_phone(path + "/8gen2.json");
  for (const char* name : plan::kPapers) {
    folder.stacks[name] = plan::read_stack(fmt::format("{}/stacks/{}.json", path, name));
  }
  folder.published = plan::read_published(path + "/published");
  folder.reasons = plan::read_reasons(path + "/published");
  folder.micro = plan::read_simulated(path + "/simulated/micro.json");
  return folder;
}

std::optional<double> MicroRow::error() const {
  if (!simulated) return std::nullopt;
  if (value->bound == "most" && *simulated <= value->high && split == Split::kNone) return 0.0;
  if (value->bound == "least" && *simulated >= value->low && split == Split::kNone) return 0.0;
  if (*simulated == 0.0 && value->low <= 0.0) return 0.0;
  return std::expm1(log_error(*value, *simulated));
}

double MicroReport::median_error(Split split) const { return median(errors_of(*this, split)); }

int MicroReport::count(Split split) const {
  return static_cast<int>(std::count_if(rows.begin(), rows.end(), [&](const MicroRow& row) {
    return row.split == split && row.simulated.has_value();
  }));
}

const MicroRow* MicroReport::worst(Split split) const {
  const MicroRow* worst = nullptr;
  for (const MicroRow& row : rows) {
    if (row.split != split || !row.error()) continue;
    if (worst == nullptr || std::abs(*row.error()) > std::abs(*worst->error())) worst = &row;
  }
  return worst;
}

MicroReport simulate_micro(const PhoneFolder& folder) {
  MicroReport report;
  for (const plan::SimulatedGroup& group : folder.micro.groups) {
    const lanes::CostModel model = model_of(folder, group);
    const std::vector<Split> split = splits(group);
    for (size_t i = 0; i < split.size(); ++i) {
      MicroRow row{&row_of(folder, group.rows[i].id), &value_of(folder, group.rows[i]), group.name};
      row.split = split[i];
      if (!group.rows[i].terms.empty()) row.simulated = simulate(model, group.rows[i]);
      row.inputs = group.rows[i].inputs;
      report.rows.push_back(std::move(row));
    }
    report.n_fitted_constants += static_cast<int>(group.constants.size());
  }
  PhoneFolder copy = folder;
  add_taken(copy, report);
  // The rows must outlive the report, so they become those of `folder`, not of the copy.
  for (MicroRow& row : report.rows) {
    for (size_t i = 0; i < copy.published.size(); ++i) {
      if (row.row != &copy.published[i]) continue;
      const auto place = row.value - copy.published[i].values.data();
      row.row = &folder.published[i];
      row.value = &folder.published[i].values[static_cast<size_t>(place)];
    }
  }
  add_not_simulated(folder, report);
  return report;
}

std::map<std::string, std::vector<std::string>> fit_micro(PhoneFolder& folder) {
  NamesOfStacks changed;
  for (const plan::SimulatedGroup& group : folder.micro.groups) {
    if (group.constants.empty()) continue;
    fit_group(folder, group);
    if (group.is_of_phone) rescale_memory(folder, folder.phone_8gen2);
    std::vector<std::string>& names = changed[group.is_of_phone ? "" : group.stack];
    names.insert(names.end(), group.constants.begin(), group.constants.end());
    names.insert(names.end(), group.equal_constants.begin(), group.equal_constants.end());
  }
  borrow(folder, changed);
  return changed;
}

void write_fitted(PhoneFolder& folder) {
  for (const auto& [stack, names] : fit_micro(folder)) {
    const auto fields = stack.empty() ? folder.phone.fields() : folder.stacks.at(stack).fields();
    std::vector<plan::Field> changed;
    for (const std::string& name : names) changed.push_back(find_field(fields, name));
    if (changed.empty()) continue;
    const std::string path = stack.empty() ? folder.path + "/8gen3.json"
                                           : fmt::format("{}/stacks/{}.json", folder.path, stack);
    plan::update_constants(path, changed);
  }
  for (const char* name : {"8gen2", "8plusgen1", "8elite"}) {
    const std::string path = fmt::format("{}/{}.json", folder.path, name);
    plan::Phone other = plan::read_phone(path);
    plan::update_constants(path, rescale_memory(folder, other));
  }
}

}  // namespace troika::papers
