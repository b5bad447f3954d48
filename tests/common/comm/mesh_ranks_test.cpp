// Covers: common/comm/mesh.hpp. Groups against grids written out by hand and against brute force.

#include "common/comm/mesh.hpp"
#include "tests/common/comm/comm_test.hpp"

namespace ultra {
namespace {

using Names = std::vector<std::string_view>;

std::vector<int> members(const Communicator& group) {
  std::vector<int> ranks;
  for (int i = 0; i < group.size(); ++i) ranks.push_back(group.world_rank(i));
  return ranks;
}

Axis stages(std::size_t size) {
  return {.name = "pp", .size = size, .splits = Splits::kLayers, .nearness = 20};
}
Axis tokens(std::size_t size) {
  return {.name = "cp", .size = size, .splits = Splits::kTokens, .nearness = 30};
}
Axis matrices(std::size_t size) { return {.name = "tp", .size = size, .nearness = 40}; }
MeshView experts(std::size_t size) {
  return {.replaces = {"dp", "cp"}, .rest = "edp", .by = {{.name = "ep", .size = size}}};
}

class MeshRanks : public test::RandomTest {
 protected:
  /// A shape of at most 8 ranks.
  MeshShape draw_shape() {
    while (true) {
      const auto draw = [&] { return static_cast<std::size_t>(random.between(1, 4)); };
      const std::size_t dp = draw(), pp = draw(), cp = draw(), tp = draw(), ep = draw();
      if (dp * pp * cp * tp > 8 || dp * cp % ep != 0) continue;
      // Whoever comes first: the nearness says who stands where.
      return MeshShape({matrices(tp), replicas(dp), tokens(cp), stages(pp)}, {experts(ep)});
    }
  }
};

TEST_F(MeshRanks, GroupsOfEightRanksAreThoseDrawnByHand) {
  run_ranks(8, [](Communicator& world) {
    const Mesh mesh(world, MeshShape({replicas(2), stages(2), matrices(2)}, {experts(2)}));
    if (world.rank() != 5) return;  // dp 1, pp 0, tp 1
    EXPECT_THAT(members(mesh.along("tp")), ElementsAre(4, 5));
    EXPECT_THAT(members(mesh.along("pp")), ElementsAre(5, 7));
    EXPECT_THAT(members(mesh.along("dp")), ElementsAre(1, 5));
    EXPECT_THAT(members(mesh.along("ep")), ElementsAre(1, 5));
    EXPECT_THAT(members(mesh.along("edp")), ElementsAre(5));
    EXPECT_THAT(members(mesh.along("an axis that nobody has brought")), ElementsAre(5));
    EXPECT_THAT(members(mesh.group({"pp", "tp"})), ElementsAre(4, 5, 6, 7));
    EXPECT_THAT(members(mesh.group({"tp", "dp"})), ElementsAre(0, 1, 4, 5));
    EXPECT_EQ(mesh.group({"tp", "dp"}).name(), "dp*tp");
    EXPECT_EQ(mesh.along("tp").name(), "tp");
    EXPECT_THAT(members(mesh.world()), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  });
}

TEST_F(MeshRanks, EveryProductHoldsTheRanksThatAgreeElsewhere) {
  const Names axes = {"dp", "pp", "cp", "tp"};
  for (int repetition = 0; repetition < 10; ++repetition) {
    const MeshShape shape = draw_shape();
    SCOPED_TRACE(shape.str());
    run_ranks(shape.world_size(), [&](Communicator& world) {
      const Mesh mesh(world, shape);
      const auto that_agree = [&](const Names& along) {
        std::vector<int> ranks;
        for (int rank = 0; rank < world.size(); ++rank) {
          if (std::ranges::all_of(along, [&](std::string_view axis) {
                return shape.position(rank, axis) == shape.position(world.rank(), axis);
              })) {
            ranks.push_back(rank);
          }
        }
        return ranks;
      };
      for (const std::string_view a : axes) {
        EXPECT_EQ(mesh.along(a).rank(), shape.position(world.rank(), a));
        for (const std::string_view b : axes) {
          Names others = axes;
          std::erase_if(others, [&](std::string_view axis) { return axis == a || axis == b; });
          EXPECT_EQ(members(mesh.group({a, b})), that_agree(others)) << a << " x " << b;
        }
      }
      EXPECT_EQ(members(mesh.along("ep")), that_agree({"pp", "tp", "edp"}));
      EXPECT_EQ(members(mesh.along("edp")), that_agree({"pp", "tp", "ep"}));
    });
  }
}

TEST_F(MeshRanks, PositionsCountTheRanksOff) {
  const MeshShape shape = draw_shape();
  int rank = 0;
  for (int dp = 0; dp < shape.size("dp"); ++dp) {
    for (int pp = 0; pp < shape.size("pp"); ++pp) {
      for (int cp = 0; cp < shape.size("cp"); ++cp) {
        for (int tp = 0; tp < shape.size("tp"); ++tp, ++rank) {
          EXPECT_EQ(shape.position(rank, "dp"), dp);
          EXPECT_EQ(shape.position(rank, "pp"), pp);
          EXPECT_EQ(shape.position(rank, "cp"), cp);
          EXPECT_EQ(shape.position(rank, "tp"), tp);
          EXPECT_EQ(shape.position(rank, "edp") * shape.size("ep") + shape.position(rank, "ep"),
                    dp * shape.size("cp") + cp);
        }
      }
    }
  }
  EXPECT_EQ(rank, shape.world_size());
}

TEST_F(MeshRanks, AViewMayReplaceThreeAxes) {
  const MeshShape shape({replicas(2), stages(3), matrices(4)},
                        {{.replaces = {"dp", "tp"},
                          .rest = "edp",
                          .by = {{.name = "ep", .size = 2}, {.name = "etp", .size = 2}}}});
  EXPECT_EQ(shape.size("edp"), 2);
  // Rank 22 is dp 1, pp 2, tp 2: the seventh of the eight that it counts.
  EXPECT_EQ(shape.position(22, "edp"), 1);
  EXPECT_EQ(shape.position(22, "ep"), 1);
  EXPECT_EQ(shape.position(22, "etp"), 0);
}

TEST_F(MeshRanks, WrongShapesAreRefused) {
  const auto refused = [](const std::vector<Axis>& axes, const std::vector<MeshView>& views) {
    return message_of<ConfigError>([&] { MeshShape(axes, views); });
  };
  EXPECT_THAT(refused({replicas(1), matrices(0)}, {}),
              HasSubstr("tp is 0. It must be at least 1."));
  EXPECT_THAT(refused({replicas(3), tokens(1)}, {experts(2)}),
              HasSubstr("ep must divide dp * cp: 3 * 1 % 2 = 1. Choose a divisor of 3."));
  EXPECT_THAT(refused({replicas(1 << 20), stages(1 << 20)}, {}), HasSubstr("too many ranks"));
  EXPECT_THAT(refused({stages(2), stages(2)}, {}), HasSubstr("two axes 'pp'"));
  EXPECT_THAT(refused({{.name = "a", .nearness = 10}, replicas(2)}, {}),
              HasSubstr("a and dp are equally near"));
  // Error: under mpirun, processes outside the run get RankFailed, which quotes the ConfigError.
  EXPECT_THAT(message_of<Error>([] {
                run_ranks(4, [](Communicator& world) {
                  Mesh(world, MeshShape({replicas(3), matrices(2)}));
                });
              }),
              AllOf(HasSubstr("dp 3 * tp 2 = 6 ranks"), HasSubstr("has 4")));
  EXPECT_THAT(message_of<Error>([] {
                run_ranks(2, [](Communicator& world) {
                  const Mesh mesh(world, MeshShape({replicas(2), matrices(1)}, {experts(2)}));
                  static_cast<void>(mesh.group({"ep", "tp"}));
                });
              }),
              AllOf(HasSubstr("no group 'ep*tp'"), HasSubstr("stands alone")));
}

}  // namespace
}  // namespace ultra
