#include "common/comm/engine/roll_call.hpp"
#include "tests/common/comm/comm_test.hpp"

namespace ultra::comm {
namespace {

OperationInfo sum_of(std::size_t count) {
  return {.kind = OpKind::kAllReduce, .communicator = "dp", .sequence = 7, .count = count};
}

/// What the members are told when member 2 of 4 calls `other` and the rest call the sum of 12 f32.
std::string complaint(const OperationInfo& other) {
  const OperationInfo info = sum_of(12);
  std::vector<Answer> answers(4, Answer::of(info));
  answers[2] = Answer::of(other);
  return message_of<CommMismatch>([&] { expect_same_call(answers, info); });
}

TEST(RollCall, IsContentWhenAllCallTheSame) {
  const OperationInfo info = sum_of(12);
  EXPECT_NO_THROW(expect_same_call(std::vector<Answer>(5, Answer::of(info)), info));
  EXPECT_NO_THROW(expect_same_call(std::vector<Answer>(1, Answer::of(info)), info));
}

TEST(RollCall, FindsAMemberThatIsOutOfStep) {
  OperationInfo later = sum_of(12);
  later.sequence = 8;
  EXPECT_EQ(complaint(later),
            "the members of 'dp' call different operations as their number 7: rank 2 calls "
            "all_reduce (sum of 12 f32) as number 8, ranks 0, 1, 3 call all_reduce (sum of 12 f32) "
            "as number 7. All must call the same operations in the same order, splits too.");
}

TEST(RollCall, NamesTheMinorityAndBothCalls) {
  OperationInfo other = sum_of(12);
  other.kind = OpKind::kReduceScatter;
  EXPECT_EQ(complaint(other),
            "the members of 'dp' call different operations as their number 7: rank 2 calls "
            "reduce_scatter (sum of 12 f32), ranks 0, 1, 3 call all_reduce (sum of 12 f32). All "
            "must call the same operations in the same order.");
}

TEST(RollCall, SeesEveryDifference) {
  EXPECT_THAT(complaint(sum_of(13)), HasSubstr("rank 2 calls all_reduce (sum of 13 f32), ranks"));
  OperationInfo dtype = sum_of(12);
  dtype.dtype = DType::kF64;
  EXPECT_THAT(complaint(dtype), HasSubstr("rank 2 calls all_reduce (sum of 12 f64), ranks"));
  OperationInfo op = sum_of(12);
  op.op = ReduceOp::kMin;
  EXPECT_THAT(complaint(op), HasSubstr("rank 2 calls all_reduce (min of 12 f32), ranks"));
}

TEST(RollCall, SeesADifferentRoot) {
  OperationInfo info = sum_of(12);
  info.kind = OpKind::kBroadcast;
  info.root = 1;
  std::vector<Answer> answers(3, Answer::of(info));
  answers[0].root = 2;
  const auto text = message_of<CommMismatch>([&] { expect_same_call(answers, info); });
  EXPECT_THAT(text, HasSubstr("rank 0 calls broadcast (12 f32 from rank 2), "
                              "ranks 1, 2 call broadcast (12 f32 from rank 1)"));
}

TEST(RollCall, ListsEveryCallTheRarestFirst) {
  const OperationInfo info = sum_of(1);
  std::vector<Answer> answers;
  for (const std::size_t count : {1U, 2U, 1U, 2U, 3U, 1U}) {
    answers.push_back(Answer::of(sum_of(count)));
  }
  const auto text = message_of<CommMismatch>([&] { expect_same_call(answers, info); });
  EXPECT_THAT(text, HasSubstr("rank 4 calls all_reduce (sum of 3 f32), "
                              "ranks 1, 3 call all_reduce (sum of 2 f32), "
                              "ranks 0, 2, 5 call all_reduce (sum of 1 f32)"));
}

OperationInfo labeled(const std::string& label) {
  OperationInfo info = sum_of(12);
  info.label = label;
  return info;
}

/// What two members are told that call the same under these labels; empty: nothing.
std::string complaint(const std::string& one, const std::string& other) {
  const std::vector<Answer> answers{Answer::of(labeled(one)), Answer::of(labeled(other))};
  if (answers[0].same_call(answers[1])) return "";
  return message_of<CommMismatch>([&] { expect_same_call(answers, labeled(one)); });
}

TEST(RollCall, ALabelIsAPartOfTheCall) {
  EXPECT_EQ(complaint("bucket 1", "bucket 1"), "");
  EXPECT_EQ(complaint("bucket 1", "bucket 2"),
            "the members of 'dp' call different operations as their number 7: rank 0 calls "
            "all_reduce (sum of 12 f32) [bucket 1], rank 1 calls all_reduce (sum of 12 f32) "
            "[bucket 2]. All must call the same operations in the same order, under the same "
            "labels.");
  EXPECT_THAT(complaint("", "bucket 2"),
              HasSubstr("rank 0 calls all_reduce (sum of 12 f32), rank 1 calls all_reduce (sum of "
                        "12 f32) [bucket 2]. All"));
}

TEST(RollCall, OfALongLabelItQuotesTheBeginning) {
  const std::string fits = "gradients of the layers 0 to 11.";
  ASSERT_EQ(fits.size(), Answer::kLabelBytes);
  EXPECT_THAT(complaint(fits, fits + "x"), HasSubstr("[gradients of the layers 0 to 11.], rank 1"));
  EXPECT_THAT(complaint(fits, fits + "x"), HasSubstr("[gradients of the layers 0 to ...]. All"));
  EXPECT_EQ(complaint(fits + "x", fits + "x"), "");
  EXPECT_NE(complaint(fits + "x", fits + "y"), "") << "all of it is compared";
}

TEST(RollCall, SpeaksOfOneRankAndOfMany) {
  EXPECT_EQ(rank_list({2}), "rank 2");
  EXPECT_EQ(rank_list({0, 2, 3}), "ranks 0, 2, 3");
  const std::vector<int> world{0, 1, 2, 3};
  EXPECT_EQ(have({2}, world, "not arrived"), "rank 2 has not arrived");
  EXPECT_EQ(have({0, 2}, world, "not sent"), "ranks 0, 2 have not sent");
  EXPECT_EQ(have({2}, "not arrived"), "rank 2 has not arrived");
  EXPECT_EQ(have({0, 2}, "not sent"), "ranks 0, 2 have not sent");
}

TEST(RollCall, SaysWhoTheMembersOfAGroupAreInTheWorld) {
  const std::vector<int> evens{0, 2, 4};
  EXPECT_EQ(have({1}, evens, "not arrived"), "rank 1 (in the world: 2) has not arrived");
  EXPECT_EQ(have({0, 2}, evens, "not sent"), "ranks 0, 2 (in the world: 0, 4) have not sent");
}

}  // namespace
}  // namespace ultra::comm
