#include "common/comm/backend/mpi/mpi_tag.hpp"

#include <set>

#include "common/comm/comm_error.hpp"
#include "common/comm/communicator.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::comm::mpi {
namespace {

constexpr int kOpenMpi = 31;
constexpr int kSmallest = 15;  // that the MPI standard allows

TEST(MpiTag, KeepsMessagesUnderWayApart) {
  std::set<int> tags;
  for (const auto use : {Tag::Use::kCollective, Tag::Use::kPointToPoint, Tag::Use::kRollCall}) {
    for (std::uint16_t lane = 0; lane < Tag::kLanes; ++lane) {
      for (std::uint32_t sequence = 1000; sequence < 1200; ++sequence) {
        const int tag = mpi_tag({.use = use, .lane = lane, .sequence = sequence}, kSmallest);
        EXPECT_GE(tag, 0);
        EXPECT_LT(tag, 1 << kSmallest);
        EXPECT_TRUE(tags.insert(tag).second);
      }
    }
  }
}

/// MessageName promises that numbers less than 2^24 apart do not meet.
TEST(MpiTag, KeepsTheNumbersOfNamesOrRefusesThem) {
  constexpr std::uint32_t kApart = (1U << MessageName::kBits) - 1;
  const Tag low{.use = Tag::Use::kNamed, .lane = 3, .sequence = 5};
  const Tag high{.use = Tag::Use::kNamed, .lane = 3, .sequence = 5 + kApart};
  EXPECT_NE(mpi_tag(low, kOpenMpi), mpi_tag(high, kOpenMpi));
  const auto refused = message_of<CommError>([&] { return mpi_tag(low, kOpenMpi - 1); });
  EXPECT_THAT(refused, AllOf(HasSubstr("this MPI's tags have 30 bits"), HasSubstr("24")));
}

}  // namespace
}  // namespace ultra::comm::mpi
