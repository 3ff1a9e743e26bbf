/* Attention of prompts, alone: for engines that keep their own weights, keys and values, and want
 * long prompts to attend to what an estimate in whole numbers finds worth it. Link
 * libtroika_attention; it holds no engine.
 *
 * Every function that can fail returns a code; where `error` is given, it then holds a sentence
 * that says what happened and what to do. Nothing is thrown, nothing is printed, nothing is global.
 * Nothing is allocated but by troika_attention_create.
 */
#ifndef TROIKA_ATTENTION_H
#define TROIKA_ATTENTION_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum troika_attention_code {
  TROIKA_ATTENTION_OK = 0,
  TROIKA_ATTENTION_ERROR = 1,     /* no memory, or kernels that this processor lacks */
  TROIKA_ATTENTION_USAGE = 2,     /* a wrong argument */
  TROIKA_ATTENTION_TOO_SMALL = 3, /* the workspace */
} troika_attention_code;

typedef struct troika_attention_error {
  troika_attention_code code;
  char message[256];
} troika_attention_error;

typedef enum troika_attention_mode {
  TROIKA_ATTENTION_FULL = 0,   /* all positions, in bfloat16 with float sums */
  TROIKA_ATTENTION_SPARSE = 1, /* 64 tokens that share a head of keys choose together */
  TROIKA_ATTENTION_QUERY = 2,  /* each query of each head chooses for itself; exact in float */
} troika_attention_mode;

typedef enum troika_attention_type {
  TROIKA_ATTENTION_F32 = 0,
  TROIKA_ATTENTION_F16 = 1,
  TROIKA_ATTENTION_BF16 = 2,
} troika_attention_type;

typedef struct troika_attention_options {
  size_t size;        /* of this struct, as the caller knows it */
  int32_t n_heads;    /* of queries */
  int32_t n_kv_heads; /* of keys and values; divides n_heads */
  int32_t head_size;  /* elements, up to 256 */
  float scale;        /* of a product of query and key; 0: 1 / sqrt(head_size) */
  float soft_cap;     /* 0: none */
  troika_attention_mode mode;
  float share;              /* of the positions that are kept, above 0, at most 1; 0: 0.2 */
  const float* head_shares; /* (n_heads), each as `share`; or null: all have that. Copied. Heads
                               that share keys choose together in SPARSE, with the mean of theirs */
  int32_t from;             /* tokens before this position attend to all: a multiple of 64, at least
                               512; 0: 1024 */
} troika_attention_options;

/* Rows of a head: of tokens, positions or slots. */
typedef struct troika_attention_rows {
  const void* data;
  troika_attention_type type;
  size_t row_bytes;  /* from one row of a head to the next */
  size_t head_bytes; /* from one head to the next */
} troika_attention_rows;

/* Runs item(arg, i, worker) for each i below n_items, on any thread, and returns when all have
 * ended. Items that run at the same time have different workers, below the number that the call
 * names. */
typedef void troika_attention_pool(void* user, int64_t n_items,
                                   void (*item)(void* arg, int64_t i, int32_t worker), void* arg);

typedef struct troika_attention_call {
  size_t size;            /* of this struct, as the caller knows it */
  int32_t n_tokens;       /* that follow each other */
  int32_t first_position; /* of the first of them: each token sees the positions up to its own */
  troika_attention_rows q;
  troika_attention_rows k, v; /* of first_position + n_tokens positions, the tokens' own included */
  const uint32_t* slots;      /* position p has row slots[p] of k and v; null: row p */
  float* out;
  size_t out_row_bytes; /* multiples of 4 */
  size_t out_head_bytes;
  void* workspace;
  size_t workspace_bytes;
  int32_t n_workers;           /* at least 1 */
  troika_attention_pool* pool; /* null: the calling thread does everything */
  void* pool_user;
} troika_attention_call;

typedef struct troika_attention troika_attention;

troika_attention_code troika_attention_create(const troika_attention_options* options,
                                              troika_attention** attention,
                                              troika_attention_error* error);
/* Null is allowed. */
void troika_attention_destroy(troika_attention* attention);

/* Bytes of workspace that the call needs; what it says of data is not looked at. 0 for a call that
 * troika_attention_run refuses. */
size_t troika_attention_workspace(const troika_attention* attention,
                                  const troika_attention_call* call);

/* May be called by several threads at once, with a workspace for each. The bits of a token's result
 * depend neither on the number of workers nor on their order; in SPARSE on whether all 64 tokens of
 * its tile are in the call: a tile begins at a multiple of 64, and one that is not whole attends to
 * all positions. */
troika_attention_code troika_attention_run(const troika_attention* attention,
                                           const troika_attention_call* call,
                                           troika_attention_error* error);

#ifdef __cplusplus
}
#endif

#endif
