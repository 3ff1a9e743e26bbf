/* Attention of a long prompt with libtroika_attention alone, on invented numbers:
 *
 *   attention [TOKENS [ABOVE]]
 *
 * Says how far sparse attention is from full attention where a few positions carry most of it.
 * Positions are kept that weigh more than ABOVE times the mean, so that no token sees what a later
 * one chose. Fails where they are further apart than such numbers may be.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <troika/attention.h>

enum { kHeads = 6, kKvHeads = 2, kHeadSize = 64 };
static const double kUsualAbove = 2.5, kMostPercent = 1.0;

/* Between -1 and 1. */
static float next_number(uint32_t* state) {
  *state = *state * 1664525u + 1013904223u;
  return (float)(*state >> 8) / 8388608.0f - 1.0f;
}

/* (n_rows, n_heads, kHeadSize); each `step`-th row points where row 0 does. */
static float* invent(int n_rows, int n_heads, int step, uint32_t seed) {
  const size_t row = (size_t)n_heads * kHeadSize;
  float* x = malloc((size_t)n_rows * row * sizeof(float));
  if (x == NULL) exit(1);
  for (int r = 0; r < n_rows; ++r) {
    for (size_t i = 0; i < row; ++i) {
      x[(size_t)r * row + i] = next_number(&seed);
      if (r % step == 0) x[(size_t)r * row + i] += 2.0f * cosf((float)(i % kHeadSize));
    }
  }
  return x;
}

static troika_attention_rows rows_of(const float* data, int n_heads) {
  troika_attention_rows rows = {data, TROIKA_ATTENTION_F32, 0, kHeadSize * sizeof(float)};
  rows.row_bytes = (size_t)n_heads * rows.head_bytes;
  return rows;
}

static int run(troika_attention_mode mode, double above, troika_attention_call call, float* out) {
  troika_attention_error error;
  troika_attention* attention = NULL;
  troika_attention_options options = {.size = sizeof(options)};
  options.n_heads = kHeads;
  options.n_kv_heads = kKvHeads;
  options.head_size = kHeadSize;
  options.mode = mode;
  options.above = above;
  if (troika_attention_create(&options, &attention, &error) != TROIKA_ATTENTION_OK) {
    fprintf(stderr, "error: %s\n", error.message);
    return 0;
  }
  call.out = out;
  call.workspace_bytes = troika_attention_workspace(attention, &call);
  call.workspace = malloc(call.workspace_bytes);
  const troika_attention_code code = troika_attention_run(attention, &call, &error);
  if (code != TROIKA_ATTENTION_OK) fprintf(stderr, "error: %s\n", error.message);
  free(call.workspace);
  troika_attention_destroy(attention);
  return code == TROIKA_ATTENTION_OK;
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? atoi(argv[1]) : 2048;
  const double above = argc > 2 ? atof(argv[2]) : kUsualAbove;
  if (n < 1 || n > 100000) {
    fprintf(stderr, "error: TOKENS must be between 1 and 100000.\n");
    return 2;
  }
  if (!(above > 0.0)) {
    fprintf(stderr, "error: ABOVE must be a number above 0, such as %.1f.\n", kUsualAbove);
    return 2;
  }
  float* const q = invent(n, kHeads, 1, 1);
  float* const k = invent(n, kKvHeads, 50, 2);
  float* const v = invent(n, kKvHeads, n, 3);
  const size_t n_results = (size_t)n * kHeads * kHeadSize;
  float* const full = malloc(n_results * sizeof(float));
  float* const sparse = malloc(n_results * sizeof(float));
  if (full == NULL || sparse == NULL) return 1;
  troika_attention_call call = {.size = sizeof(call)};
  call.n_tokens = n;
  call.q = rows_of(q, kHeads);
  call.k = rows_of(k, kKvHeads);
  call.v = rows_of(v, kKvHeads);
  call.out_head_bytes = kHeadSize * sizeof(float);
  call.out_row_bytes = kHeads * call.out_head_bytes;
  call.n_workers = 1;
  const int is_done = run(TROIKA_ATTENTION_FULL, 0.0, call, full) &&
                      run(TROIKA_ATTENTION_SPARSE, above, call, sparse);
  double difference = 0.0, size = 0.0;
  for (size_t i = 0; is_done && i < n_results; ++i) {
    difference += fabs((double)sparse[i] - full[i]);
    size += fabs((double)full[i]);
  }
  const double percent = 100.0 * difference / size;
  const int is_near = percent <= kMostPercent; /* no, where it is no number */
  if (is_done) {
    printf(
        "%d tokens, above %.2f times the mean: sparse attention is %.2f %% from full attention\n",
        n, above, percent);
    if (!is_near) {
      fprintf(stderr, "error: more than %.0f %% apart; give a smaller ABOVE.\n", kMostPercent);
    }
  }
  free(sparse);
  free(full);
  free(v);
  free(k);
  free(q);
  return is_done && is_near ? 0 : 1;
}
