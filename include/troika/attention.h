/* Troika's attention of prompts alone. It is for engines that keep their own weights, keys and
 * values, and want long prompts to attend to what an estimate in whole numbers finds worth it. Link
 * libtroika_attention, which holds no engine.
 *
 * Every function that can fail returns a code; where `error` is given, it then holds a sentence
 * that says what happened and what to do. Nothing is thrown, nothing is printed, nothing is global.
 * Only troika_attention_create allocates, and what is refused, for its sentence.
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
  TROIKA_ATTENTION_ERROR = 1,     /* there is no memory, or the pool threw */
  TROIKA_ATTENTION_USAGE = 2,     /* an argument is wrong */
  TROIKA_ATTENTION_TOO_SMALL = 3, /* the workspace is too small */
} troika_attention_code;

typedef struct troika_attention_error {
  troika_attention_code code;
  char message[256];
} troika_attention_error;

typedef enum troika_attention_mode {
  TROIKA_ATTENTION_FULL = 0, /* attends to all positions, in bfloat16 with float sums */
  /* 64 tokens that share a head of keys choose positions together: those that weigh enough
     (`above`), seen from the token on that chose them, or the best share of them, seen by all 64
     tokens, so that later ones choose for earlier ones too */
  TROIKA_ATTENTION_SPARSE = 1,
  TROIKA_ATTENTION_QUERY = 2, /* each query of each head chooses for itself, and attends in float */
} troika_attention_mode;

typedef enum troika_attention_type {
  TROIKA_ATTENTION_F32 = 0,
  TROIKA_ATTENTION_F16 = 1,
  TROIKA_ATTENTION_BF16 = 2,
} troika_attention_type;

typedef struct troika_attention_options {
  size_t size;        /* the size of this struct, as the caller knows it */
  int32_t n_heads;    /* counts heads of queries, up to 65536 */
  int32_t n_kv_heads; /* counts heads of keys and values; divides n_heads */
  int32_t head_size;  /* counts elements, up to 512 */
  float scale;        /* multiplies a product of query and key; 0: 1 / sqrt(head_size) */
  float soft_cap;     /* caps scores softly; 0: not at all */
  troika_attention_mode mode;
  float share;              /* the share of positions that are kept, above 0, at most 1; 0: 0.2 */
  const float* head_shares; /* (n_heads): each head's `share`, copied; null: all have `share`. Heads
                               that share keys choose together in SPARSE, by the mean of theirs */
  int32_t from;             /* tokens before this position attend to all: a multiple of 64, at least
                               512, at most 134217728; 0: 1024 */
  /* In SPARSE: positions are kept that weigh more than this many times what each would if all
   * weighed the same, and shares say only which heads keep everything: those with 1, and all that
   * share keys with one. 2.5 lost at most 0.5 % of perplexity on a small model. 0: `share`
   * decides */
  double above;
} troika_attention_options;

/* Says where the rows of each head are. There is a row for each token, position or slot. */
typedef struct troika_attention_rows {
  const void* data;
  troika_attention_type type;
  size_t row_bytes;  /* the distance from one row of a head to the next, at most 2^32 */
  size_t head_bytes; /* the distance from one head to the next, at most 2^40 */
} troika_attention_rows;

/* Runs item(arg, i, worker) for each i below n_items, on any thread, and returns when all have
 * ended. Items that run at the same time have different workers, below the number that the call
 * names. */
typedef void troika_attention_pool(void* user, int64_t n_items,
                                   void (*item)(void* arg, int64_t i, int32_t worker), void* arg);

typedef struct troika_attention_call {
  size_t size;            /* the size of this struct, as the caller knows it */
  int32_t n_tokens;       /* counts tokens, which follow each other */
  int32_t first_position; /* the first token's position; each token sees those up to its own. With
                             n_tokens at most 134217728 */
  troika_attention_rows q;
  troika_attention_rows k, v; /* have first_position + n_tokens rows, those of the tokens too */
  const uint32_t* slots;      /* position p has row slots[p], below 2^31, of k and v; null: row p */
  float* out;
  size_t out_row_bytes;  /* a multiple of 4, at most 2^32 */
  size_t out_head_bytes; /* a multiple of 4, at most 2^40 */
  void* workspace;
  size_t workspace_bytes;
  int32_t n_workers;           /* at least 1, at most 65536 */
  troika_attention_pool* pool; /* null: the calling thread does everything */
  void* pool_user;
} troika_attention_call;

typedef struct troika_attention troika_attention;

troika_attention_code troika_attention_create(const troika_attention_options* options,
                                              troika_attention** attention,
                                              troika_attention_error* error);
/* Frees it. Null is allowed. */
void troika_attention_destroy(troika_attention* attention);

/* Returns how many bytes of workspace the call needs; 0 for a call that troika_attention_run
 * refuses for its sizes and strides. Does not look at the call's data. */
size_t troika_attention_workspace(const troika_attention* attention,
                                  const troika_attention_call* call);

/* Computes attention. Several threads may call it at once, with a workspace for each. The bits of a
 * token's result depend neither on the number of workers nor on their order. In SPARSE they depend
 * on whether all 64 tokens of its tile are in the call: a tile begins at a multiple of 64, and one
 * that is not whole attends to all positions. */
troika_attention_code troika_attention_run(const troika_attention* attention,
                                           const troika_attention_call* call,
                                           troika_attention_error* error);

#ifdef __cplusplus
}
#endif

#endif
