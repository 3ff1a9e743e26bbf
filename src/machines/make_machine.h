// Makes the machine that a plan runs on: cores of this one, or a virtual phone.
#pragma once

#include <memory>

#include "kernels/kernels.h"
#include "lanes/machine.h"
#include "lanes/virtual/virtual_phone.h"
#include "machines/phone_setup.h"
#include "plan/plan.h"
#include "prepare/load_weights.h"

namespace troika::machines {

// Makes lanes of cores, and one of the disk where weights of outliers come from a side file. Both
// `kernels` and `weights` must outlive the machine. `keeps_files` says that what drivers of devices
// compile is kept for later runs.
std::unique_ptr<lanes::Machine> make_host(const kernels::Table& kernels, const plan::Plan& plan,
                                          const prepare::LoadedWeights& weights, bool keeps_files);

// Makes a phone. Without values it takes modelled time only; else cores of this machine compute the
// values.
std::unique_ptr<lanes::VirtualPhone> make_phone(const PhoneSetup& setup,
                                                const kernels::Table& kernels,
                                                const plan::Plan& plan, bool has_values);

}  // namespace troika::machines
