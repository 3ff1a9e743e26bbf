#include "cli/phone_time.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "machines/phone_setup.h"

namespace troika::cli {

PhoneTime::PhoneTime(const engine::Engine& engine) : phone_(engine.phone()) {
  if (phone_.machine != nullptr) start_ = phone_.machine->use();
}

double PhoneTime::joules() const { return phone_.machine->energy_j(start_, phone_.machine->use()); }

std::string PhoneTime::text() const {
  if (!is_modelled()) return {};
  return fmt::format("phone      {:8.2f} J   {}; times and rates of answers are modelled\n",
                     joules(), phone_.setup->name());
}

void PhoneTime::add_to(nlohmann::ordered_json& json) const {
  json["machine"] = is_modelled() ? phone_.setup->name() : "here";
  json["is_modelled"] = is_modelled();
  if (is_modelled()) json["joules"] = joules();
}

}  // namespace troika::cli
