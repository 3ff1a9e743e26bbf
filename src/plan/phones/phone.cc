#include "plan/phones/phone.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <utility>

#include "base/error.h"

namespace troika::plan {
namespace {

constexpr double kLongUs = 1e7;
constexpr double kMostGbPerS = 2e3;
constexpr double kMostRate = 1e4;
constexpr double kLeast = 1e-6;  // the least value of a constant that must not be 0

void check_like(const std::string& like, const std::string& path) {
  const bool is_name =
      like.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789.-") == std::string::npos &&
      !like.starts_with('.');
  if (!is_name) {
    throw Error(fmt::format("{}: the field 'like' must be the name of another stack.", path));
  }
}

}  // namespace

std::vector<Field> Phone::fields() {
  return {
      {"cpu.prime.count", &cpu.prime.count, 0, 64},
      {"cpu.prime.clock_ghz", &cpu.prime.clock_ghz, 0.1, 20},
      {"cpu.prime.vector_pipes", &cpu.prime.vector_pipes, 0.1, 64},
      {"cpu.middle.count", &cpu.middle.count, 0, 64},
      {"cpu.middle.clock_ghz", &cpu.middle.clock_ghz, 0.1, 20},
      {"cpu.middle.vector_pipes", &cpu.middle.vector_pipes, 0.1, 64},
      {"cpu.small.count", &cpu.small.count, 0, 64},
      {"cpu.small.clock_ghz", &cpu.small.clock_ghz, 0.1, 20},
      {"cpu.small.vector_pipes", &cpu.small.vector_pipes, 0.1, 64},
      {"gpu.relative_rate", &gpu.relative_rate, 1e-3, 1e3},
      {"npu.relative_rate", &npu.relative_rate, 1e-3, 1e3},
      {"npu.array_width", &npu.array_width, 1, 4096},
      {"npu.memory_limit_gb", &npu.memory_limit_gb, 0.01, 1e4},
      {"flash.relative_rate", &flash.relative_rate, 1e-3, 1e3},
      {"memory.peak_gb_s", &memory.peak_gb_s, 1, kMostGbPerS},
      {"memory.reached_gb_s", &memory.reached_gb_s, 1, kMostGbPerS},
      {"memory.cpu_gb_s", &memory.cpu_gb_s, 0.1, kMostGbPerS},
      {"memory.gpu_gb_s", &memory.gpu_gb_s, 0.1, kMostGbPerS},
      {"memory.npu_gb_s", &memory.npu_gb_s, 0.1, kMostGbPerS},
      {"memory.relative_rate", &memory.relative_rate, 1e-3, 1e3},
      // The power of some cores is a share of that of all.
      {"power.cpu_w", &power.cpu_w, kLeast, 1e3},
      {"power.gpu_w", &power.gpu_w, 0, 1e3},
      {"power.npu_w", &power.npu_w, 0, 1e3},
      {"power.cpu_wait_w", &power.cpu_wait_w, 0, 1e3},
      {"power.gpu_wait_w", &power.gpu_wait_w, 0, 1e3},
      {"power.npu_wait_w", &power.npu_wait_w, 0, 1e3},
      {"power.idle_w", &power.idle_w, 0, 1e3},
      {"rendering.frames_per_s", &rendering.frames_per_s, 1, 1e3},
      {"rendering.frame_ms", &rendering.frame_ms, 0, 1e3},
  };
}

std::vector<Field> Stack::fields_of_neurons() {
  return {
      {"neurons.live_share", &neurons.live_share, 1e-3, 1},
      {"neurons.power", &neurons.power, 0, 10},
      {"neurons.most", &neurons.most, 1e-3, 1},
      {"neurons.overlap", &neurons.overlap, 0, 1},
      {"neurons.continue_share", &neurons.continue_share, 1e-3, 1},
      {"neurons.predictor_rank_share", &neurons.predictor_rank_share, 0, 1},
      {"neurons.segment", &neurons.segment, 1, 1 << 20},
      {"neurons.runtime_gb", &neurons.runtime_gb, 0, 1e3},
  };
}

std::vector<Field> Stack::fields() {
  std::vector<Field> fields = fields_of_attention();
  const std::vector<Field> others = {
      {"cpu.launch_us", &cpu.launch_us, 0, kLongUs},
      {"cpu.int8_gops", &cpu.int8_gops, kLeast, 1e6},
      {"cpu.vector_gflops", &cpu.vector_gflops, kLeast, 1e6},
      {"cpu.measured_pipes_ghz", &cpu.measured_pipes_ghz, 0.1, 1e4},
      {"cpu.read_gb_s", &cpu.read_gb_s, 0, kMostGbPerS},
      {"gpu.submit_us", &gpu.submit_us, 0, kLongUs},
      {"gpu.restart_us", &gpu.restart_us, 0, kLongUs},
      {"gpu.copy_us", &gpu.copy_us, 0, kLongUs},
      {"gpu.weights_g_s", &gpu.weights_g_s, 0, kMostRate},
      {"gpu.tflops", &gpu.tflops, kLeast, kMostRate},
      {"gpu.matvec_share", &gpu.matvec_share, 0.001, 1},
      {"gpu.read_gb_s", &gpu.read_gb_s, 0, kMostGbPerS},
      {"npu.launch_us", &npu.launch_us, 0, kLongUs},
      {"npu.int8_weights_g_s", &npu.int8_weights_g_s, 0, kMostRate},
      {"npu.fp16_weights_g_s", &npu.fp16_weights_g_s, 0, kMostRate},
      {"npu.int8_tops", &npu.int8_tops, kLeast, kMostRate},
      {"npu.fp16_tflops", &npu.fp16_tflops, kLeast, kMostRate},
      // With a power above 1, more rows would take less time.
      {"npu.shape_power", &npu.shape_power, 0, 1},
      {"npu.ideal_ratio", &npu.ideal_ratio, 0.001, 1e3},
      {"npu.least_share", &npu.least_share, 1e-6, 1},
      {"npu.row_step", &npu.row_step, 1, 4096},
      {"npu.reads_first", &npu.reads_first, 0, 1},
      {"npu.is_float", &npu.is_float, 0, 1},
      {"npu.steps_in_int8", &npu.steps_in_int8, 0, 1},
      {"npu.is_permuted", &npu.is_permuted, 0, 1},
      {"npu.per_group_factor", &npu.per_group_factor, 1, 1e3},
      {"npu.thin_shape_factor", &npu.thin_shape_factor, 1, 1e3},
      {"npu.read_gb_s", &npu.read_gb_s, 0, kMostGbPerS},
      {"npu.rate_8gen3", &npu.rate_8gen3, 1e-3, 1e3},
      {"npu.rate_8gen2", &npu.rate_8gen2, 0, 1e3},
      {"handover.sync_us", &handover.sync_us, 0, kLongUs},
      {"handover.is_ordinary", &handover.is_ordinary, 0, 1},
      {"handover.sleep_us", &handover.sleep_us, 0, kLongUs},
      {"handover.poll_us", &handover.poll_us, 0, kLongUs},
      {"handover.npu_first_us", &handover.npu_first_us, 0, kLongUs},
      {"handover.gpu_first_us", &handover.gpu_first_us, 0, kLongUs},
      {"graph.create_ms", &graph.create_ms, 0, 1e6},
      {"graph.optimise_ms", &graph.optimise_ms, 0, 1e6},
      {"graph.prepare_ms", &graph.prepare_ms, 0, 1e6},
      {"graph.prepare_ms_per_token", &graph.prepare_ms_per_token, 0, 1e4},
      {"graph.size_kb", &graph.size_kb, 0, 1e7},
      {"flash.kcycles_per_request", &flash.kcycles_per_request, 0, 1e6},
      {"flash.latency_us", &flash.latency_us, 0, kLongUs},
      {"flash.sequential_gb_s", &flash.sequential_gb_s, kLeast, kMostGbPerS},
      {"flash.random_gb_s", &flash.random_gb_s, kLeast, kMostGbPerS},
      {"flash.range_us", &flash.range_us, 0, kLongUs},
      {"flash.several_cores_share", &flash.several_cores_share, 0, 0.99},
      {"flash.readahead_kb", &flash.readahead_kb, 4, 1 << 20},
      {"draft.calibrate_ms_per_token", &draft.calibrate_ms_per_token, 0, 1e4},
      {"draft.step_ms", &draft.step_ms, 0, 1e4},
  };
  fields.insert(fields.end(), others.begin(), others.end());
  const std::vector<Field> of_neurons = fields_of_neurons();
  fields.insert(fields.end(), of_neurons.begin(), of_neurons.end());
  return fields;
}

std::vector<Field> Stack::fields_of_attention() {
  return {
      {"attention.launch_us", &attention.launch_us, 0, kLongUs},
      {"attention.estimate_tops", &attention.estimate_tops, kLeast, kMostRate},
      {"attention.estimate_share", &attention.estimate_share, 0, 10},
      {"attention.exact_share", &attention.exact_share, 0, 10},
      {"attention.select_share", &attention.select_share, 0, 10},
      {"attention.softmax_share", &attention.softmax_share, 0, 100},
      {"attention.scale_spread", &attention.scale_spread, 0, 10},
      {"attention.importance_spread", &attention.importance_spread, 0, 10},
      {"apps.photos_gb_s", &apps.photos_gb_s, 0, kMostGbPerS},
      {"apps.videos_gb_s", &apps.videos_gb_s, 0, kMostGbPerS},
      {"apps.music_gb_s", &apps.music_gb_s, 0, kMostGbPerS},
      {"apps.shopping_gb_s", &apps.shopping_gb_s, 0, kMostGbPerS},
  };
}

void check_phone(const Phone& phone, const std::string& where) {
  const auto& cpu = phone.cpu;
  for (const auto& [kind, count] : {std::pair{"prime", cpu.prime.count.value},
                                    {"middle", cpu.middle.count.value},
                                    {"small", cpu.small.count.value}}) {
    if (count == std::floor(count)) continue;
    throw Error(
        fmt::format("{}: the field 'cpu.{}.count' is {}, but a core is there or not. Give "
                    "a whole number.",
                    where, kind, count));
  }
  if (phone.cpu.prime.count + phone.cpu.middle.count < 1) {
    throw Error(
        fmt::format("{}: the fields 'cpu.prime.count' and 'cpu.middle.count' name no core; small "
                    "ones alone do not compute here.",
                    where));
  }
  if (phone.memory.reached_gb_s > phone.memory.peak_gb_s) {
    throw Error(
        fmt::format("{}: the field 'memory.reached_gb_s' is {}, but 'memory.peak_gb_s' only {}.",
                    where, phone.memory.reached_gb_s.value, phone.memory.peak_gb_s.value));
  }
}

Phone read_phone(const std::string& path) {
  Phone phone;
  const FileHead head = read_constants(path, kPhoneVersion, phone.fields(), nullptr);
  phone.name = head.name;
  phone.title = head.title;
  check_phone(phone, path);
  return phone;
}

Stack read_stack(const std::string& path) {
  Stack stack;
  const auto base = [&](const std::string& like) {
    check_like(like, path);
    const auto other = std::filesystem::path(path).parent_path() / (like + ".json");
    read_constants(other.string(), kStackVersion, stack.fields(), nullptr);
  };
  const FileHead head = read_constants(path, kStackVersion, stack.fields(), base);
  stack.name = head.name;
  stack.title = head.title;
  stack.like = head.like;
  return stack;
}

}  // namespace troika::plan
