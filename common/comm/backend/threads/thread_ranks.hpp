#pragma once
/// @file
/// Ranks as threads of this process.

#include "common/comm/backend/rank_body.hpp"

/// @brief Ranks as threads of one process, which see each other's memory.
namespace ultra::comm::threads {

/// @brief Calls `body` on `world_size` threads and returns when all have ended.
/// @throws what the first rank to fail threw, its type kept.
void run_ranks(int world_size, const RankBody& body);

}  // namespace ultra::comm::threads
