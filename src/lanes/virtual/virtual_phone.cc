#include "lanes/virtual/virtual_phone.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/units.h"

namespace troika::lanes {
namespace {

Transitions transitions_of(const CostModel& model, const PhoneOptions& options, plan::Phase phase) {
  Transitions transitions;
  for (const Processor from : options.lanes) {
    std::vector<double>& row = transitions.handover_us.emplace_back();
    for (const Processor to : options.lanes) {
      row.push_back(from == to ? 0.0
                               : model.handover_us(options.has_fast_handover, from, to, phase));
    }
    transitions.restart_us.push_back(model.restart_us(options.has_fast_handover, from));
  }
  transitions.poll_us = model.polling_us(options.has_fast_handover);
  return transitions;
}

// Returns the bus, with an entry for each processor, and one for flash where it is a lane.
Bus bus_of(const CostModel& model, const PhoneOptions& options) {
  Bus bus = model.bus(options.lanes);
  if (options.part_rows > 0 || options.flash_queue > 0) bus.lane_gb_s.push_back(model.flash_gb_s());
  return bus;
}

Rendering rendering_of(const CostModel& model, const PhoneOptions& options) {
  const auto gpu = std::find(options.lanes.begin(), options.lanes.end(), Processor::kGpu);
  if (gpu == options.lanes.end()) return {};
  const auto& rendering = model.phone().rendering;
  return {static_cast<int>(gpu - options.lanes.begin()), kUsPerMs * rendering.frame_ms,
          kUsPerS / rendering.frames_per_s};
}

}  // namespace

Processor processor_from_name(const std::string& name) {
  for (const Processor processor : {Processor::kCpu, Processor::kGpu, Processor::kNpu}) {
    if (name == processor_name(processor)) return processor;
  }
  throw UsageError(fmt::format(
      "'{}' is no processor of a phone. Known are cpu, gpu and npu, as in ‹lanes› \"cpu;npu\".",
      name));
}

std::vector<Processor> processors_from_text(const std::string& text) {
  std::vector<Processor> processors;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find_first_of(";,", begin), text.size());
    const Processor processor = processor_from_name(text.substr(begin, end - begin));
    if (std::find(processors.begin(), processors.end(), processor) != processors.end()) {
      throw UsageError(fmt::format("‹lanes› '{}' names {} twice, but a phone has one.", text,
                                   processor_name(processor)));
    }
    processors.push_back(processor);
    begin = end + 1;
  }
  return processors;
}

Cores cores_from_text(const std::string& text) {
  Cores cores;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const size_t equals = part.find('=');
    const std::string kind = part.substr(0, equals);
    double* const n = kind == "prime"    ? &cores.prime
                      : kind == "middle" ? &cores.middle
                      : kind == "small"  ? &cores.small
                                         : nullptr;
    const std::string digits = equals == std::string::npos ? "" : part.substr(equals + 1);
    const bool is_number = !digits.empty() && digits.size() < 3 &&
                           digits.find_first_not_of("0123456789") == std::string::npos;
    if (n == nullptr || !is_number) {
      throw UsageError(fmt::format(
          "‹phone-cores› '{}' is not understood. Write how many of which, as in middle=1 or "
          "prime=1,middle=3; there are prime, middle and small ones.",
          text));
    }
    *n = std::stod(digits);
    begin = end + 1;
  }
  return cores;
}

std::vector<Processor> all_processors() {
  return {Processor::kCpu, Processor::kGpu, Processor::kNpu};
}

VirtualPhone::VirtualPhone(const CostModel& model, const PhoneOptions& options,
                           std::unique_ptr<Lane> values)
    : model_(model),
      options_(options),
      processors_(options.lanes),
      values_(std::move(values)),
      machine_(bus_of(model, options)) {
  forms_.part_rows = options.part_rows;
  for (const Processor processor : options.lanes) {
    VirtualLaneOptions lane;
    lane.processor = processor;
    lane.arithmetic = model.arithmetic(processor, plan::Phase::kStep);
    lane.has_group_scales = options.has_group_scales;
    lane.has_square_shapes = options.has_square_shapes;
    lane.prompts = options.prompts;
    lane.prompts_have_square_shapes = options.prompts_have_square_shapes;
    if (options.part_rows > 0) lane.forms = &forms_;
    if (processor != Processor::kCpu) lane.queue_depth = options.queue_depth;
    lane.values = values_.get();
    owned_.push_back(std::make_unique<VirtualLane>(machine_, model, lane));
  }
  const CostModel& of_prompts = options.prompts != nullptr ? *options.prompts : model;
  machine_.set_transitions({transitions_of(model, options, plan::Phase::kStep),
                            transitions_of(of_prompts, options, plan::Phase::kPrompt)});
  for (size_t lane = 0; lane < options.busy_shares.size(); ++lane) {
    machine_.set_busy_share(static_cast<int>(lane), options.busy_shares[lane]);
  }
  if (options.has_rendering) machine_.set_rendering(rendering_of(model, options));
  if (options.part_rows > 0 || options.flash_queue > 0) {
    FlashOptions flash;
    flash.core_ghz = model.clock_ghz(options.flash_core);
    flash.queue_depth = std::max(1, options.flash_queue);
    flash_ = std::make_unique<VirtualFlash>(machine_, model, flash);
    if (options.flash_queue > 0 && lane_asks()) {
      machine_.set_asking(static_cast<int>(processors_.size()), cpu_lane(),
                          model.core_w(options.flash_core) / model.power_w(Processor::kCpu));
    }
  }
}

int VirtualPhone::cpu_lane() const {
  const auto cpu = std::find(processors_.begin(), processors_.end(), Processor::kCpu);
  return cpu == processors_.end() ? -1 : static_cast<int>(cpu - processors_.begin());
}

// Says whether the core that asks for reads is one of the CPU's lane.
bool VirtualPhone::lane_asks() const {
  const Cores& used = model_.used_cores();
  const Cores& core = options_.flash_core;
  return cpu_lane() >= 0 &&
         (core.prime <= used.prime && core.middle <= used.middle && core.small <= used.small);
}

void VirtualPhone::add_background(double us) { machine_.add_background(cpu_lane(), us); }

void VirtualPhone::finish_background() { machine_.finish_background(cpu_lane()); }

PhoneUse VirtualPhone::use() const {
  PhoneUse use;
  use.outside_us = machine_.outside_us();
  use.polled_us = machine_.polled_us();
  use.frames = machine_.frames();
  use.now_us = machine_.clock().now_us();
  for (size_t lane = 0; lane < processors_.size(); ++lane) {
    use.busy_us.push_back(machine_.busy_us(static_cast<int>(lane)));
    use.powered_us.push_back(machine_.powered_us(static_cast<int>(lane)));
    use.bytes += machine_.bytes(static_cast<int>(lane));
  }
  if (flash_ != nullptr) {
    const int flash = static_cast<int>(processors_.size());
    use.flash_us = machine_.busy_us(flash);
    use.flash_alone_us = machine_.alone_us(flash);
  }
  return use;
}

double VirtualPhone::busy_us(Processor processor, const PhoneUse& from, const PhoneUse& to) const {
  double us = 0.0;
  for (size_t lane = 0; lane < processors_.size(); ++lane) {
    if (processors_[lane] == processor) us += to.busy_us[lane] - from.busy_us[lane];
  }
  return us;
}

double VirtualPhone::energy_j(const PhoneUse& from, const PhoneUse& to) const {
  double joules = model_.phone().power.idle_w * (to.now_us - from.now_us) / kUsPerS;
  for (size_t lane = 0; lane < processors_.size(); ++lane) {
    const double powered_us = to.powered_us[lane] - from.powered_us[lane];
    const double wait_us = to.now_us - from.now_us - powered_us;
    joules += (model_.power_w(processors_[lane]) * powered_us +
               model_.wait_w(processors_[lane]) * wait_us) /
              kUsPerS;
  }
  joules += model_.power_w(Processor::kCpu) * (to.outside_us - from.outside_us) / kUsPerS;
  joules += model_.core_w(model_.polling_core()) * (to.polled_us - from.polled_us) / kUsPerS;
  if (options_.flash_queue > 0 && !lane_asks()) {
    joules += model_.core_w(options_.flash_core) * (to.flash_us - from.flash_us) / kUsPerS;
  }
  return joules;
}

}  // namespace troika::lanes
