// Says on which phone an answer was computed, whose modelled time stands in the figures, and what
// energy that took there.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/engine.h"
#include "lanes/virtual/virtual_phone.h"

namespace troika::cli {

class PhoneTime {
 public:
  // Is made before the answer begins. The engine must outlive it.
  explicit PhoneTime(const engine::Engine& engine);
  PhoneTime() = default;

  bool is_modelled() const { return phone_.machine != nullptr; }
  // Returns a line about the phone and its energy so far; empty on this machine.
  std::string text() const;
  // Adds the name of the phone, or "here", whether times are modelled, and the energy so far.
  void add_to(nlohmann::ordered_json& json) const;

 private:
  double joules() const;

  engine::EnginePhone phone_;
  lanes::PhoneUse start_;
};

}  // namespace troika::cli
