#pragma once
/// @file
/// The world of a cell on several ranks: the project's communicator. The only place where the
/// notebooks touch common/comm.

#include "common/comm/run_ranks.hpp"
#include "notebook/cell.hpp"

namespace ultra::notebook {

using World = Communicator;

template <class Function>
void run_ranks(int world_size, Function function) {
  ultra::run_ranks(world_size, [&](World& world) { function(world); });
}

}  // namespace ultra::notebook
