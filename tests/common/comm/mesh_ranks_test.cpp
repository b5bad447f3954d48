// Covers: common/comm/mesh.hpp. Groups against grids written out by hand and against brute force.

#include "common/comm/mesh.hpp"
#include "tests/common/comm/comm_test.hpp"

namespace ultra {
namespace {

std::vector<int> members(const Communicator& group) {
  std::vector<int> ranks;
  for (int i = 0; i < group.size(); ++i) ranks.push_back(group.world_rank(i));
  return ranks;
}

class MeshRanks : public test::RandomTest {
 protected:
  /// A shape of at most 8 ranks.
  MeshShape draw_shape() {
    while (true) {
      const auto draw = [&] { return static_cast<int>(random.between(1, 4)); };
      MeshShape shape{.dp = draw(), .pp = draw(), .cp = draw(), .ep = 1, .tp = draw()};
      if (shape.dp * shape.pp * shape.cp * shape.tp > 8) continue;
      shape.ep = draw();
      if (shape.dp * shape.cp % shape.ep == 0) return shape;
    }
  }
};

TEST_F(MeshRanks, GroupsOfEightRanksAreThoseDrawnByHand) {
  run_ranks(8, [](Communicator& world) {
    const Mesh mesh(world, {.dp = 2, .pp = 2, .cp = 1, .ep = 2, .tp = 2});
    if (world.rank() != 5) return;  // dp 1, pp 0, tp 1
    EXPECT_EQ(mesh.coordinates(),
              (MeshCoordinates{.dp = 1, .pp = 0, .cp = 0, .tp = 1, .ep = 1, .edp = 0}));
    EXPECT_THAT(members(mesh.tp()), ElementsAre(4, 5));
    EXPECT_THAT(members(mesh.pp()), ElementsAre(5, 7));
    EXPECT_THAT(members(mesh.dp()), ElementsAre(1, 5));
    EXPECT_THAT(members(mesh.ep()), ElementsAre(1, 5));
    EXPECT_THAT(members(mesh.edp()), ElementsAre(5));
    EXPECT_THAT(members(mesh.cp()), ElementsAre(5));
    EXPECT_THAT(members(mesh.group({MeshDim::kPp, MeshDim::kTp})), ElementsAre(4, 5, 6, 7));
    EXPECT_THAT(members(mesh.group({MeshDim::kTp, MeshDim::kDp})), ElementsAre(0, 1, 4, 5));
    EXPECT_EQ(mesh.group({MeshDim::kDp, MeshDim::kTp}).name(), "dp*tp");
    EXPECT_EQ(mesh.tp().name(), "tp");
    EXPECT_THAT(members(mesh.world()), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  });
}

TEST_F(MeshRanks, EveryProductHoldsTheRanksThatAgreeElsewhere) {
  constexpr MeshDim kDims[] = {MeshDim::kDp, MeshDim::kPp, MeshDim::kCp, MeshDim::kTp};
  for (int repetition = 0; repetition < 10; ++repetition) {
    const MeshShape shape = draw_shape();
    SCOPED_TRACE(shape.str());
    run_ranks(shape.world_size(), [&](Communicator& world) {
      const Mesh mesh(world, shape);
      const MeshCoordinates own = coordinates_of(shape, world.rank());
      const auto expected = [&](auto agrees) {
        std::vector<int> ranks;
        for (int rank = 0; rank < world.size(); ++rank) {
          if (agrees(coordinates_of(shape, rank))) ranks.push_back(rank);
        }
        return ranks;
      };
      for (const MeshDim a : kDims) {
        for (const MeshDim b : kDims) {
          EXPECT_EQ(members(mesh.group({a, b})), expected([&](const MeshCoordinates& other) {
                      return std::ranges::all_of(kDims, [&](MeshDim dim) {
                        return dim == a || dim == b || other.along(dim) == own.along(dim);
                      });
                    }))
              << to_string(a) << " x " << to_string(b);
        }
      }
      const auto same_plane = [&](const MeshCoordinates& other) {
        return other.pp == own.pp && other.tp == own.tp;
      };
      EXPECT_EQ(members(mesh.ep()), expected([&](const MeshCoordinates& other) {
                  return same_plane(other) && other.edp == own.edp;
                }));
      EXPECT_EQ(members(mesh.edp()), expected([&](const MeshCoordinates& other) {
                  return same_plane(other) && other.ep == own.ep;
                }));
    });
  }
}

TEST_F(MeshRanks, CoordinatesCountTheRanksOff) {
  const MeshShape shape = draw_shape();
  int rank = 0;
  for (int dp = 0; dp < shape.dp; ++dp) {
    for (int pp = 0; pp < shape.pp; ++pp) {
      for (int cp = 0; cp < shape.cp; ++cp) {
        for (int tp = 0; tp < shape.tp; ++tp) {
          const MeshCoordinates at = coordinates_of(shape, rank++);
          EXPECT_EQ((std::vector{at.dp, at.pp, at.cp, at.tp}), (std::vector{dp, pp, cp, tp}));
          EXPECT_EQ(at.edp * shape.ep + at.ep, dp * shape.cp + cp);
        }
      }
    }
  }
  EXPECT_EQ(rank, shape.world_size());
}

TEST_F(MeshRanks, GroupsReduceAlongTheirDimensionOnly) {
  run_ranks(8, [](Communicator& world) {
    const Mesh mesh(world, {.dp = 2, .pp = 1, .cp = 2, .ep = 1, .tp = 2});
    const auto sum_of_ranks = [&](const Communicator& group) {
      const Tensor data = test::filled(Device::cpu(), {1}, DType::kF64, world.rank());
      group.all_reduce(data);
      return data.to_vector()[0];
    };
    const MeshCoordinates at = mesh.coordinates();
    EXPECT_EQ(sum_of_ranks(mesh.tp()), 2.0 * (4 * at.dp + 2 * at.cp) + 1);
    EXPECT_EQ(sum_of_ranks(mesh.group({MeshDim::kDp, MeshDim::kCp})), 0 + 2 + 4 + 6 + 4 * at.tp);
  });
}

TEST_F(MeshRanks, WrongShapesAreRefused) {
  const auto refused = [](const MeshShape& shape) {
    return message_of<ConfigError>([&] { return shape.world_size(); });
  };
  EXPECT_THAT(refused({.tp = 0}), HasSubstr("tp is 0. It must be at least 1."));
  EXPECT_THAT(refused({.dp = 3, .ep = 2}), HasSubstr("3 * 1 % 2 = 1. Choose a divisor of 3."));
  EXPECT_THAT(refused({.dp = 1 << 20, .pp = 1 << 20}), HasSubstr("too many ranks"));
  // Error: under mpirun, processes outside the run get RankFailed, which quotes the ConfigError.
  EXPECT_THAT(message_of<Error>([] {
                run_ranks(4, [](Communicator& world) { Mesh(world, {.dp = 3, .tp = 2}); });
              }),
              AllOf(HasSubstr("dp 3 * pp 1 * cp 1 * tp 2 = 6 ranks"), HasSubstr("has 4")));
  EXPECT_THAT(message_of<Error>([] {
                run_ranks(2, [](Communicator& world) {
                  static_cast<void>(Mesh(world, {.dp = 2}).group({MeshDim::kEp, MeshDim::kTp}));
                });
              }),
              HasSubstr("no group 'tp*ep'"));
}

}  // namespace
}  // namespace ultra
