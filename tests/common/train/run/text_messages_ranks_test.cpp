#include "common/train/run/text_messages.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/comm/run_ranks.hpp"

namespace ultra::train {
namespace {

/// A text of a length that differs from rank to rank, with every kind of byte.
std::string text_of(int rank, std::size_t factor) {
  std::string text;
  for (std::size_t i = 0; i < static_cast<std::size_t>(rank) * factor; ++i) {
    text += static_cast<char>(i * 31 + static_cast<std::size_t>(rank));
  }
  return text;
}

TEST(TextMessages, GatherAllTextsOnRankZeroInOrder) {
  for (const int size : {1, 2, 3, 5}) {
    for (const std::size_t factor : {1U, 3U, 4U, 1000U}) {
      run_ranks(size, [&](Communicator& world) {
        const std::vector<std::string> texts = gather_texts(world, text_of(world.rank(), factor));
        if (world.rank() != 0) {
          EXPECT_TRUE(texts.empty());
          return;
        }
        ASSERT_EQ(texts.size(), static_cast<std::size_t>(size));
        for (int rank = 0; rank < size; ++rank) {
          EXPECT_EQ(texts[static_cast<std::size_t>(rank)], text_of(rank, factor));
        }
      });
    }
  }
}

TEST(TextMessages, BroadcastRankZerosText) {
  for (const int size : {1, 2, 4}) {
    run_ranks(size, [&](Communicator& world) {
      EXPECT_EQ(broadcast_text(world, ""), "");
      const std::string own = world.rank() == 0 ? text_of(1, 777) : "ignored";
      EXPECT_EQ(broadcast_text(world, own), text_of(1, 777));
    });
  }
}

}  // namespace
}  // namespace ultra::train
