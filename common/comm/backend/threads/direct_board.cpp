#include "common/comm/backend/threads/direct_board.hpp"

#include <utility>

#include "common/comm/backend/threads/thread_world.hpp"

namespace ultra::comm::threads {

DirectBoard::DirectBoard(std::vector<int> world_ranks, std::vector<Bell*> bells)
    : world_ranks_(std::move(world_ranks)), bells_(std::move(bells)) {
  for (auto& slot : slots_) slot = std::make_unique<Showing[]>(bells_.size());
}

void DirectBoard::ring_others(int caller) {
  for (int member = 0; member < size(); ++member) {
    if (member != caller) bells_[static_cast<std::size_t>(member)]->ring();
  }
}

}  // namespace ultra::comm::threads
