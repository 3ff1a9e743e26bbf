// Virtual phones as plain data (V1): a file for each system on a chip, and a stack file for each
// paper, because the papers measured different things of the same chip. docs/virtual-phone.md says
// what each constant means in the model.
#pragma once

#include <string>
#include <vector>

#include "plan/phones/constants.h"

namespace troika::plan {

struct CoreType {
  Constant count;
  Constant clock_ghz;
  Constant vector_pipes;  // counts pipes of 128 bits in each core
};

struct Phone {
  std::string name;   // "8gen3"
  std::string title;  // "Snapdragon 8 Gen 3"
  struct {
    CoreType prime, middle, small;
  } cpu;
  // A stack's rates were measured on the 8 Gen 3. On this phone they are multiplied by these
  // factors.
  struct {
    Constant relative_rate;
  } gpu, flash;
  struct {
    Constant relative_rate;
    Constant array_width;  // sizes of products are rounded up to it
    Constant memory_limit_gb;
  } npu;
  struct {
    Constant peak_gb_s;           // the rate of the memory chips
    Constant reached_gb_s;        // what all lanes reach together
    Constant cpu_gb_s;            // what each lane reaches alone
    Constant gpu_gb_s, npu_gb_s;  // what each of these lanes reaches alone
    Constant relative_rate;       // multiplies bandwidths that a stack measured itself
  } memory;
  struct {
    Constant cpu_w, gpu_w, npu_w;                 // what lanes draw while they are busy
    Constant cpu_wait_w, gpu_wait_w, npu_wait_w;  // what lanes draw while they have no task
    Constant idle_w;                              // what the rest of the phone draws
  } power;
  // What a game asks of the GPU, where one runs beside the model (H14).
  struct {
    Constant frames_per_s;  // counts frames of the screen
    Constant frame_ms;      // the GPU's time for each frame
  } rendering;

  std::vector<Field> fields();
};

struct Stack {
  std::string name;  // "heterollm"
  std::string title;
  std::string like;  // names the stack that it takes the rest from; empty: none
  struct {
    Constant launch_us;      // the time of a call, which tells the team of threads of work
    Constant int8_gops;      // 8-bit products, in billions of operations per second
    Constant vector_gflops;  // the rate of attention
    // Pipes x GHz of the cores on which these rates were measured.
    Constant measured_pipes_ghz;
    Constant read_gb_s;  // 0: the phone's own
  } cpu;
  struct {
    Constant submit_us;    // the time to submit a task while the queue is not empty
    Constant restart_us;   // the time that comes on top where the queue ran empty
    Constant copy_us;      // the time to copy from memory of the CPU, whatever the size
    Constant weights_g_s;  // 0: loading weights costs bandwidth only
    Constant tflops;
    Constant matvec_share;  // the share of a kernel's time in which it reads
    Constant read_gb_s;     // 0: the phone's own
  } gpu;
  struct {
    Constant launch_us;
    // The rate at which weights are loaded before they are multiplied, in billions per second; 0:
    // loading costs bandwidth only.
    Constant int8_weights_g_s, fp16_weights_g_s;
    Constant int8_tops, fp16_tflops;  // rates at the ideal shape
    // The exponent of the shape's factor: rate ~ (rows / columns of the streamed operand) to this
    // power.
    Constant shape_power;
    Constant ideal_ratio;    // the rows / columns from which on the shape costs nothing
    Constant least_share;    // the least share of the rate, at the worst shape
    Constant row_step;       // rows of the input are rounded up to it
    Constant reads_first;    // 1: weights are read before the first row, 0: while rows stream
    Constant is_float;       // 1: products are in half floats, 0: in 8-bit whole numbers
    Constant steps_in_int8;  // 1: generation takes 8-bit whole numbers even where is_float is 1
    // 1: weights are streamed and activations stay, 0: the other way round.
    Constant is_permuted;
    // The time of a product with scales per group, against one with a scale per tensor.
    Constant per_group_factor;
    Constant thin_shape_factor;  // the time to multiply 1024x1 rows against 32x32
    Constant read_gb_s;          // 0: the phone's own
    // The rate of the 8 Gen 3 over that of the part on which these rates were measured.
    Constant rate_8gen3;
    // The rate of the 8 Gen 2 over that of the same part; 0: the phone's own factor.
    Constant rate_8gen2;
  } npu;
  struct {
    Constant sync_us;  // the time of an ordinary handover
    // 1: this software has no other handover than the ordinary one, whatever is asked for.
    Constant is_ordinary;
    Constant sleep_us;      // the shortest sleep: what is left of a wait is polled for
    Constant poll_us;       // the time to poll a flag after the sleep
    Constant npu_first_us;  // the time to submit to the GPU once the NPU has ended
    // The time of a handover where the GPU's task was submitted before: the GPU's queue keeps the
    // order.
    Constant gpu_first_us;
  } handover;
  struct {
    Constant create_ms;
    Constant optimise_ms;
    // The time to create and optimise the graphs of a prompt.
    Constant prepare_ms, prepare_ms_per_token;
    Constant size_kb;
  } graph;
  struct {
    Constant launch_us;
    Constant estimate_tops;  // the rate of the int8 product of queries and keys, per head
    // The time of estimate and top-k, as a share of that of full attention on a CPU core.
    Constant estimate_share;
    // The time of the exact part, if all positions were kept, as a share of that of full attention
    // on a CPU core.
    Constant exact_share;
    Constant select_share;  // the share of estimate_share for top-k alone, which stays on the core
    // The time of softmax and mask on the NPU, as a share of the time of a product there.
    Constant softmax_share;
    // The next two say how far apart heads are: the standard deviation of the logarithm of what is
    // drawn for each head.
    Constant scale_spread;       // draws the scales of queries and of keys
    Constant importance_spread;  // draws what a loss gains where a head, or a layer, is left out
  } attention;
  struct {
    // The rate at which another program reads memory.
    Constant photos_gb_s, videos_gb_s, music_gb_s, shopping_gb_s;
  } apps;
  struct {
    Constant kcycles_per_request;  // thousands of cycles of the core that asks
    Constant latency_us;           // the time on top for a request that waits alone (depth 1)
    Constant sequential_gb_s, random_gb_s;
    Constant range_us;  // the time on top per request and doubling of the range over 128 MB
    Constant several_cores_share;  // the share of the rate that is lost where several cores ask
    Constant readahead_kb;  // what the system reads of a mapped file when a page of it is touched
  } flash;
  // The FFN of a model by neurons: statistics of its activations, and sizes that papers choose.
  struct {
    Constant live_share;            // the share of neurons that fire at a token
    Constant power, most;           // the law of firing: f(q) = min(most, c * q^-power)
    Constant overlap;               // how much a token's live neurons are those of the token before
    Constant continue_share;        // the share of gates that need their up and down parts
    Constant predictor_rank_share;  // the rank of predictors, as a share of the width
    Constant segment;               // counts neurons of a unit of work
    Constant runtime_gb;            // the program's memory beside weights and cache
  } neurons;
  struct {
    Constant calibrate_ms_per_token;
    Constant step_ms;
  } draft;

  std::vector<Field> fields();

 private:
  std::vector<Field> fields_of_attention();  // with the constants of other programs
  std::vector<Field> fields_of_neurons();
};

inline constexpr int kPhoneVersion = 1;
inline constexpr int kStackVersion = 1;

// Throws Error, whose text begins with `where`, for constants that do not go together.
void check_phone(const Phone& phone, const std::string& where);

// Reads a phone's file. Throws Error that names the file and the field, as read_stack does.
Phone read_phone(const std::string& path);
// Reads a stack's file. A stack that is "like" another takes what it does not say from that one's
// file, in the same folder.
Stack read_stack(const std::string& path);

}  // namespace troika::plan
