// Which published values are simulated, how, and which constants they set.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lanes/virtual/cost.h"

namespace troika::papers {

struct SimulatedValue {
  std::string id;
  std::string name;  // of the value, where a row has several
  std::string inputs;
  std::function<double(const lanes::CostModel&)> simulate;  // in the unit of the row
};

struct MicroGroup {
  std::string name;
  std::string stack;
  std::vector<std::string> constants;  // that its rows set; of the phone where `is_of_phone`
  bool is_of_phone = false;
  std::vector<std::string> equal_constants = {};  // that get the value of the first
  std::vector<SimulatedValue> values = {};
  bool is_on_8gen2 = false;  // where its rows were measured, or are taken to have been
};

// Over-determined or exact; in the order in which they must be fitted.
std::vector<MicroGroup> micro_groups();

// A constant that is the row, up to a factor of units.
struct TakenValue {
  const char* id;
  const char* name;
  const char* stack;  // null: the phone
  const char* constant;
  double factor;  // row = constant times this
};
const std::vector<TakenValue>& taken_values();

// Why a row that has numbers is not simulated; empty for rows that are.
std::string reason_not_simulated(const std::string& id, const std::string& name);

}  // namespace troika::papers
