// The chapter's algorithms in a world of one rank: it counts what a rank among all others sends.

#include "common/comm/backend/meta/meta_world.hpp"
#include "chapters/02_collectives/choice/book_algorithms.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/gpu/meta/tape.hpp"
#include "tests/support/drawn_program.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra {
namespace {

using collectives::BookAlgorithms;
using collectives::BookOptions;

class MetaWorldOfTheBook : public test::RandomTest {};

TEST_F(MetaWorldOfTheBook, EveryRankCountsWhatItSendsAmongAllTheOthers) {
  for (int round = 0; round < 5; ++round) {
    const test::DrawnProgram program = test::draw_program(random, 60);
    BookOptions book;
    book.tuning.small_bytes = random.between(0, 400);  // trees below, rings above
    RankOptions options;
    options.algorithms = std::make_shared<const BookAlgorithms>(book);
    run_ranks(
        program.shape.world_size(),
        [&](Communicator& world) {
          test::run_program(program, world, Device::cpu(), [](std::size_t) {});
          gpu::Tape tape;
          const Communicator alone = comm::meta_world(world.rank(), world.size(), tape)
                                         .with_algorithms(options.algorithms);
          test::run_program(program, alone, Device::meta(tape), [](std::size_t) {});
          EXPECT_EQ(alone.stats().kinds, world.stats().kinds);
        },
        options);
  }
}

}  // namespace
}  // namespace ultra
