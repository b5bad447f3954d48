#pragma once
/// @file
/// What counts as sent by a platform's own collective, whose messages nobody sees.

#include <cstddef>

#include "common/comm/engine/operation.hpp"

namespace ultra::comm {

/// @brief Bytes that rank `rank` of `size` sends in a collective that moves as little as possible.
///
/// For n elements, P ranks and own chunk c: all_reduce n - c + (P-1) c, which is 2 n (P-1)/P when P
/// divides n; reduce n, but n - c at the root; broadcast (P-1) n at the root; scatter n - c at the
/// root; gather c, but 0 at the root; all_gather (P-1) c; reduce_scatter and all_to_all n - c. It
/// is what ranks on shared memory read from each other and write to each other.
[[nodiscard]] std::size_t native_sent_bytes(const CollectiveCall& call, int rank, int size);

}  // namespace ultra::comm
