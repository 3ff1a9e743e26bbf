// Virtual phones as plain data (V1): a file for each system on a chip, and a stack file for each
// paper, because what the papers measured of the same chip differs. docs/virtual-phone.md says
// what each constant means in the model.
#pragma once

#include <string>
#include <vector>

#include "plan/phones/constants.h"

namespace troika::plan {

struct CoreType {
  Constant count;
  Constant clock_ghz;
  Constant vector_pipes;  // of 128 bits, each core
};

struct Phone {
  std::string name;   // "8gen3"
  std::string title;  // "Snapdragon 8 Gen 3"
  struct {
    CoreType prime, middle, small;
  } cpu;
  // Rates of a stack were measured on the 8 Gen 3; here they are multiplied by these.
  struct {
    Constant relative_rate;
  } gpu, flash;
  struct {
    Constant relative_rate;
    Constant array_width;  // sizes are rounded up to it
    Constant memory_limit_gb;
  } npu;
  struct {
    Constant peak_gb_s;           // of the memory chips
    Constant reached_gb_s;        // by all lanes together
    Constant cpu_gb_s;            // one lane alone
    Constant gpu_gb_s, npu_gb_s;  // the same
    Constant relative_rate;       // for bandwidths that a stack measured itself
  } memory;
  struct {
    Constant cpu_w, gpu_w, npu_w;                 // while busy
    Constant cpu_wait_w, gpu_wait_w, npu_wait_w;  // of a lane that has no task
    Constant idle_w;                              // of the rest of the phone
  } power;
  // What a game draws, where one runs beside the model (H14).
  struct {
    Constant frames_per_s;  // of the screen
    Constant frame_ms;      // of the GPU, for each
  } rendering;

  std::vector<Field> fields();
};

struct Stack {
  std::string name;  // "heterollm"
  std::string title;
  std::string like;  // the stack that it takes the rest from; empty: none
  struct {
    Constant launch_us;           // of a call: the team of threads is told of work
    Constant int8_gops;           // of 8-bit products, in billions of operations per second
    Constant vector_gflops;       // of attention
    Constant measured_pipes_ghz;  // of the cores these rates were measured on: pipes x GHz
    Constant read_gb_s;           // 0: as the phone says
  } cpu;
  struct {
    Constant submit_us;    // the queue is not empty
    Constant restart_us;   // more, where it ran empty
    Constant copy_us;      // from memory of the CPU, whatever the size
    Constant weights_g_s;  // 0: loading weights costs bandwidth only
    Constant tflops;
    Constant matvec_share;  // of its time in which a kernel reads
    Constant read_gb_s;     // 0: as the phone says
  } gpu;
  struct {
    Constant launch_us;
    // Weights loaded before they are multiplied with, in billions per second; 0: loading costs
    // bandwidth only.
    Constant int8_weights_g_s, fp16_weights_g_s;
    Constant int8_tops, fp16_tflops;  // at the ideal shape
    Constant shape_power;        // rate ~ (rows / columns of the streamed operand) to this power
    Constant ideal_ratio;        // rows / columns from which on the shape costs nothing
    Constant least_share;        // of the rate, at the worst shape
    Constant row_step;           // rows of the input are rounded up to it
    Constant reads_first;        // 1: weights are read before the first row, 0: while rows stream
    Constant is_float;           // 1: products in half floats, 0: in 8-bit whole numbers
    Constant steps_in_int8;      // 1: in generation whole numbers all the same
    Constant is_permuted;        // 1: weights are streamed and activations stay, 0: the other way
    Constant per_group_factor;   // time of a product with scales per group, against one per tensor
    Constant thin_shape_factor;  // time to multiply 1024x1 rows against 32x32
    Constant read_gb_s;          // 0: as the phone says
    Constant rate_8gen3;         // of the 8 Gen 3, beside the part these rates were measured on
    Constant rate_8gen2;         // the same of the 8 Gen 2; 0: as the phone says
  } npu;
  struct {
    Constant sync_us;       // an ordinary one
    Constant is_ordinary;   // 1: this software has no other, whatever is asked for
    Constant sleep_us;      // the shortest
    Constant poll_us;       // on a flag, after the sleep
    Constant npu_first_us;  // submission after the NPU has ended
    Constant gpu_first_us;  // the order of the queue does it
  } handover;
  struct {
    Constant create_ms;
    Constant optimise_ms;
    Constant prepare_ms, prepare_ms_per_token;  // create and optimise the graphs of a prompt
    Constant size_kb;
  } graph;
  struct {
    Constant launch_us;
    Constant estimate_tops;   // int8 product of queries and keys, per head
    Constant estimate_share;  // of the time of full attention on a CPU core: estimate and top-k
    Constant exact_share;     // the same for the exact part, if all positions were kept
    Constant select_share;    // of estimate_share: top-k alone, which stays on the core
    Constant softmax_share;   // softmax and mask on the NPU, of the time of a product there
    // How far apart heads are: the standard deviation of the logarithm of what is drawn for each.
    Constant scale_spread;       // scales of queries and of keys
    Constant importance_spread;  // what a loss gains where a head, or a layer, is left out
  } attention;
  struct {
    Constant photos_gb_s, videos_gb_s, music_gb_s, shopping_gb_s;  // that another program reads
  } apps;
  struct {
    Constant kcycles_per_request;  // thousands of cycles of the core that asks
    Constant latency_us;           // more, for a request that waits alone (depth 1)
    Constant sequential_gb_s, random_gb_s;
    Constant range_us;             // more per request and doubling of the range over 128 MB
    Constant several_cores_share;  // of the rate lost where several cores ask
    Constant readahead_kb;         // that the system reads of a mapped file when it is touched
  } flash;
  // A model's FFN by neurons: what is taken of its activations, and sizes that papers choose.
  struct {
    Constant live_share;            // of neurons, that fire at a token
    Constant power, most;           // f(q) = min(most, c * q^-power)
    Constant overlap;               // of a token and the one before
    Constant continue_share;        // of gates that need up and down
    Constant predictor_rank_share;  // of the width
    Constant segment;               // neurons of a unit of work
    Constant runtime_gb;            // beside weights and cache
  } neurons;
  struct {
    Constant calibrate_ms_per_token;
    Constant step_ms;
  } draft;

  std::vector<Field> fields();

 private:
  std::vector<Field> fields_of_attention();  // and of other programs
  std::vector<Field> fields_of_neurons();
};

inline constexpr int kPhoneVersion = 1;
inline constexpr int kStackVersion = 1;

// Throws Error, beginning with `where`, for constants that do not go together.
void check_phone(const Phone& phone, const std::string& where);

// Both throw Error that names the file and the field.
Phone read_phone(const std::string& path);
// A stack that is "like" another takes what it does not say from that file, in the same folder.
Stack read_stack(const std::string& path);

}  // namespace troika::plan
