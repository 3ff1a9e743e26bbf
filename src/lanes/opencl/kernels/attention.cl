// Stores keys and values in the cache, and computes attention over those that a token sees.
// HEAD: elements of a head. PIECE: 16, 8, 4 or 2, the largest that divides it.
// KV: how keys and values are stored. Slot s lies in page s / 256, and in each page the rows of the
// first head come first.
#pragma OPENCL FP_CONTRACT OFF

#define KV_FLOATS 0
#define KV_HALVES 1
#define KV_BLOCKS 2

#define JOINED_(A, B) A##B
#define JOINED(A, B) JOINED_(A, B)
#define FLOATS JOINED(float, PIECE)
#define LOAD JOINED(vload, PIECE)
#define STORE JOINED(vstore, PIECE)
#define LOAD_HALVES JOINED(vload_half, PIECE)
#define N_PIECES (HEAD / PIECE)

#if KV == KV_FLOATS
#define ROW_BYTES (HEAD * 4)
#elif KV == KV_HALVES
#define ROW_BYTES (HEAD * 2)
#else
#define ROW_BYTES (HEAD / 32 * 34)
#endif

#define MOST_HALF 65504.0f

ulong row_offset(uint slot, uint head, ulong page_stride) {
  return (ulong)(slot >> 8) * page_stride + ((ulong)head * 256 + (slot & 255)) * ROW_BYTES;
}

FLOATS piece_of(__global const uchar* row, uint i) {
#if KV == KV_FLOATS
  return LOAD(i, (__global const float*)row);
#elif KV == KV_HALVES
  return LOAD_HALVES(i, (__global const half*)row);
#else
  __global const uchar* block = row + i * PIECE / 32 * 34;
  const float scale = vload_half(0, (__global const half*)block);
  return JOINED(convert_float, PIECE)(
             LOAD(0, (__global const char*)(block + 2 + i * PIECE % 32))) * scale;
#endif
}

void store_row(__global const float* x, __global uchar* row) {
#if KV == KV_FLOATS
  for (uint i = 0; i < HEAD; ++i) ((__global float*)row)[i] = x[i];
#elif KV == KV_HALVES
  for (uint i = 0; i < HEAD; ++i) {
    vstore_half_rte(x[i], i, (__global half*)row);
  }
#else
  for (uint b = 0; b < HEAD / 32; ++b) {
    __global uchar* block = row + b * 34;
    float largest = 0.0f;
    bool has_room = true;
    for (uint i = 0; i < 32; ++i) {
      const float v = fabs(x[b * 32 + i]);
      has_room = has_room && v <= 127.0f * MOST_HALF;  // not for what is no number
      largest = isnan(v) ? largest : fmax(largest, fmin(v, FLT_MAX));
    }
    vstore_half_rte(fmin(largest / 127.0f, MOST_HALF), 0, (__global half*)block);
    const float scale = vload_half(0, (__global const half*)block);
    const float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
    for (uint i = 0; i < 32; ++i) {
      const float v = x[b * 32 + i];
      const float known = isnan(v) ? 0.0f : clamp(v, -FLT_MAX, FLT_MAX);
      ((__global char*)block)[2 + i] = (char)clamp(rint(known * inverse), -127.0f, 127.0f);
    }
    // What a block cannot hold is no number, because a cache must not hide it from who reads it.
    if (!has_room) *(__global ushort*)block = 0x7e00;
  }
#endif
}

// Stores the key and the value of one head of one token.
__kernel void store_kv(uint first_head, uint n_kv_heads, __global const uchar* run,
                       ulong slots_offset, __global const float* all_k, ulong k_offset,
                       __global const float* all_v, ulong v_offset, __global uchar* cache,
                       ulong key_offset, ulong value_offset, ulong page_stride) {
  const uint head = first_head + (uint)get_global_id(0);
  const ulong token = get_global_id(1);
  const uint slot = ((__global const uint*)(run + slots_offset))[token];
  const ulong from = (token * n_kv_heads + head) * HEAD;
  const ulong to = row_offset(slot, head, page_stride);
  store_row(all_k + k_offset + from, cache + key_offset + to);
  store_row(all_v + v_offset + from, cache + value_offset + to);
}

// Computes one head's attention for one token over the positions that the token sees, 16 at a time.
// For each token, `seen` has the begin and length of its list of past positions, then the begin and
// length of its list of positions in this pass.
#define BLOCK 16
__kernel void attend(uint first_head, uint n_heads, uint n_group, uint window, float scale,
                     float soft_cap, __global const uchar* run, ulong seen_offset,
                     ulong lists_offset, __global const float* all_q, ulong q_offset,
                     __global float* all_y, ulong y_offset, __global const uchar* cache,
                     ulong key_offset, ulong value_offset, ulong page_stride) {
  const uint head = first_head + (uint)get_global_id(0);  // the head of the queries
  const ulong token = get_global_id(1);
  const ulong at = (token * n_heads + head) * HEAD;
  const uint kv_head = head / n_group;
  const uint4 seen = ((__global const uint4*)(run + seen_offset))[token];
  __global const uint* past = (__global const uint*)(run + lists_offset) + seen.x;
  __global const uint* own = (__global const uint*)(run + lists_offset) + seen.z;
  const uint n = seen.y + seen.w;
  const uint begin = window != 0 && n > window ? n - window : 0;

  FLOATS q[N_PIECES], sums[N_PIECES];
  for (uint i = 0; i < N_PIECES; ++i) {
    q[i] = LOAD(i, all_q + q_offset + at);
    sums[i] = (FLOATS)0.0f;
  }
  float largest = -INFINITY, total = 0.0f;
  for (uint first = begin; first < n; first += BLOCK) {
    const uint n_here = min((uint)BLOCK, n - first);
    float scores[BLOCK];
    ulong rows[BLOCK];
    float block_largest = largest;
    for (uint j = 0; j < n_here; ++j) {
      const uint i = first + j;
      const uint slot = i < seen.y ? past[i] : own[i - seen.y];
      rows[j] = row_offset(slot, kv_head, page_stride);
      FLOATS products = (FLOATS)0.0f;
      for (uint p = 0; p < N_PIECES; ++p) {
        products = fma(q[p], piece_of(cache + key_offset + rows[j], p), products);
      }
      float values[PIECE];
      STORE(products, 0, values);
      for (uint half_width = PIECE / 2; half_width > 0; half_width /= 2) {
        for (uint p = 0; p < half_width; ++p) values[p] += values[p + half_width];
      }
      float score = values[0] * scale;
      if (soft_cap > 0.0f) score = soft_cap * tanh(score / soft_cap);
      scores[j] = score;
      block_largest = fmax(block_largest, score);
    }
    const float shrink = exp(largest - block_largest);
    total *= shrink;
    for (uint p = 0; p < N_PIECES; ++p) sums[p] *= shrink;
    for (uint j = 0; j < n_here; ++j) {
      const float weight = exp(scores[j] - block_largest);
      total += weight;
      for (uint p = 0; p < N_PIECES; ++p) {
        sums[p] = fma((FLOATS)weight, piece_of(cache + value_offset + rows[j], p), sums[p]);
      }
    }
    largest = block_largest;
  }
  const float factor = total > 0.0f ? 1.0f / total : (n > begin ? NAN : 0.0f);
  for (uint p = 0; p < N_PIECES; ++p) STORE(sums[p] * factor, p, all_y + y_offset + at);
}
