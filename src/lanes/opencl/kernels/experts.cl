// Computes what a mixture of experts has beside products: which experts a token takes, in which
// order the parts of all tokens stand, and their sum. STRETCH counts the elements of a work item.
//
// A token has n_used routes, (expert, share) each, and a part for each of them. The parts of one
// expert stand together, in the order of the experts, then of the tokens.
//
// A table says where parts stand, in whole numbers:
//   (1)          how many tiles there are
//   (n_experts)  how many parts an expert has
//   (n_parts)    which part stands in a row: token * n_used + route
//   (n_parts)    in which row a part stands
//   (n_tiles, 3) an expert, and the first and the last row but one of consecutive parts of it
#pragma OPENCL FP_CONTRACT OFF

// Chooses the best experts of a token by their shares of the softmax of its logits. The first of
// equal shares wins. Where a logit is no number, no share is one, and the first experts are taken.
__kernel void choose_experts(uint n_experts, uint n_used, float factor, uint normalizes,
                             __global const float* all_x, ulong x_offset, __global float* all_y,
                             ulong y_offset) {
  const ulong token = get_global_id(0);
  __global const float* x = all_x + x_offset + token * n_experts;
  __global float* shares = all_y + y_offset + token * 2 * n_used;
  __global int* experts = (__global int*)shares;
  float largest = -INFINITY, sum = 0.0f, total = 0.0f;
  for (uint e = 0; e < n_experts; ++e) largest = fmax(largest, x[e]);
  for (uint e = 0; e < n_experts; ++e) sum += exp(x[e] - largest);
  uint last = 0;
  float last_part = INFINITY;
  for (uint i = 0; i < n_used; ++i) {
    uint best = i;
    float best_part = -1.0f;
    for (uint e = 0; e < n_experts; ++e) {
      const float part = exp(x[e] - largest);
      const bool is_left = part < last_part || (part == last_part && e > last);
      if (!is_left || part <= best_part) continue;
      best = e;
      best_part = part;
    }
    // Parts of which one is no number leave no order.
    if (isnan(sum)) best = i;
    const float share = exp(x[best] - largest) / sum;
    experts[2 * i] = (int)best;
    shares[2 * i + 1] = share;
    total += share;
    last = best;
    last_part = best_part;
  }
  // The bound is the smallest normal number of half precision.
  if (normalizes) factor /= fmax(total, 6.103515625e-5f);
  for (uint i = 0; i < n_used; ++i) shares[2 * i + 1] *= factor;
}

// Counts the parts of an expert.
__kernel void count_parts(__global uint* table, __global const float* all_x, ulong x_offset,
                          uint n_parts) {
  const uint expert = get_global_id(0);
  __global const uint* routes = (__global const uint*)(all_x + x_offset);
  uint n = 0;
  for (uint part = 0; part < n_parts; ++part) n += routes[2 * (ulong)part] == expert ? 1 : 0;
  table[1 + expert] = n;
}

// Places the parts of an expert behind those of the experts before it, and divides them into tiles.
__kernel void place_parts(__global uint* table, __global const float* all_x, ulong x_offset,
                          uint n_parts, uint n_experts, uint tile_rows) {
  const uint expert = get_global_id(0);
  __global const uint* routes = (__global const uint*)(all_x + x_offset);
  __global const uint* counts = table + 1;
  __global uint* parts = table + 1 + n_experts;
  __global uint* rows = parts + n_parts;
  __global uint* tiles = rows + n_parts;
  uint row = 0, tile = 0;
  for (uint e = 0; e < expert; ++e) {
    row += counts[e];
    tile += (counts[e] + tile_rows - 1) / tile_rows;
  }
  const uint end = row + counts[expert];
  for (uint first = row; first < end; first += tile_rows, ++tile) {
    tiles[3 * tile] = expert;
    tiles[3 * tile + 1] = first;
    tiles[3 * tile + 2] = min(first + tile_rows, end);
  }
  if (expert + 1 == n_experts) table[0] = tile;
  for (uint part = 0; part < n_parts; ++part) {
    if (routes[2 * (ulong)part] != expert) continue;
    parts[row] = part;
    rows[part] = row++;
  }
}

// Sums the parts of a token, each times its share, in the order of its routes.
__kernel void sum_parts(uint width, uint n_used, uint n_experts, __global const uint* table,
                        __global const float* all_parts, ulong parts_offset,
                        __global const float* all_routes, ulong routes_offset,
                        __global float* all_y, ulong y_offset, uint n_parts) {
  const ulong token = get_global_id(1);
  __global const uint* rows = table + 1 + n_experts + n_parts + token * n_used;
  __global const float* routes = all_routes + routes_offset + token * 2 * n_used;
  const uint begin = (uint)get_global_id(0) * STRETCH;
  const uint end = min(begin + STRETCH, width);
  for (uint i = begin; i < end; ++i) {
    float sum = 0.0f;
    for (uint used = 0; used < n_used; ++used) {
      // A route that names no expert has no row.
      const ulong row = min(rows[used], n_parts - 1);
      const float part = routes[2 * used + 1] * all_parts[parts_offset + row * width + i];
      sum = used == 0 ? part : sum + part;
    }
    all_y[y_offset + token * width + i] = sum;
  }
}
