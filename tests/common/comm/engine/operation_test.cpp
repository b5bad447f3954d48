// Covers: common/comm/engine/operation.hpp, common/comm/comm_error.hpp, common/comm/traffic.hpp
// Covers: common/comm/engine/tensor_bytes.hpp
// Covers: common/comm/engine/roll_call.hpp

#include "common/comm/engine/operation.hpp"

#include <gtest/gtest.h>

#include "common/base/interrupt.hpp"
#include "common/comm/engine/roll_call.hpp"
#include "common/comm/engine/tensor_bytes.hpp"
#include "common/comm/traffic.hpp"
#include "tests/common/comm/comm_test.hpp"

namespace ultra {
namespace {

std::string text_of(OpKind kind, ReduceOp op = ReduceOp::kSum) {
  return to_string(OperationInfo{.kind = kind,
                                 .communicator = "dp",
                                 .sequence = 3,
                                 .count = 4096,
                                 .dtype = DType::kF32,
                                 .op = op,
                                 .root = 2});
}

TEST(Operation, IsNamedByKindNumberGroupAndData) {
  EXPECT_EQ(text_of(OpKind::kBroadcast), "broadcast #3 of 'dp' (4096 f32 from rank 2)");
  EXPECT_EQ(text_of(OpKind::kReduce), "reduce #3 of 'dp' (sum of 4096 f32 to rank 2)");
  EXPECT_EQ(text_of(OpKind::kAllReduce, ReduceOp::kMax), "all_reduce #3 of 'dp' (max of 4096 f32)");
  EXPECT_EQ(text_of(OpKind::kGather), "gather #3 of 'dp' (4096 f32 to rank 2)");
  EXPECT_EQ(text_of(OpKind::kScatter), "scatter #3 of 'dp' (4096 f32 from rank 2)");
  EXPECT_EQ(text_of(OpKind::kAllGather), "all_gather #3 of 'dp' (4096 f32)");
  EXPECT_EQ(text_of(OpKind::kReduceScatter, ReduceOp::kAverage),
            "reduce_scatter #3 of 'dp' (average of 4096 f32)");
  EXPECT_EQ(text_of(OpKind::kAllToAll), "all_to_all #3 of 'dp' (4096 f32)");
  EXPECT_EQ(text_of(OpKind::kBarrier), "barrier #3 of 'dp'");
  EXPECT_EQ(text_of(OpKind::kSend), "send #3 of 'dp' (4096 f32 to rank 2)");
  EXPECT_EQ(text_of(OpKind::kRecv), "recv #3 of 'dp' (4096 f32 from rank 2)");
}

template <class E>
std::exception_ptr error(const std::string& text) {
  return std::make_exception_ptr(E(text));
}

TEST(CommError, KindsSayHowARankEnded) {
  EXPECT_EQ(kind_of(error<ConfigError>("a")), ErrorKind::kBadInput);
  EXPECT_EQ(kind_of(error<ShapeError>("a")), ErrorKind::kBadInput);
  EXPECT_EQ(kind_of(error<FileError>("a")), ErrorKind::kBadInput);
  EXPECT_EQ(kind_of(error<NumericError>("a")), ErrorKind::kBadInput);
  EXPECT_EQ(kind_of(error<NotWritten>("02.1 ring")), ErrorKind::kNotWritten);
  EXPECT_EQ(kind_of(error<Interrupted>("a")), ErrorKind::kInterrupted);
  EXPECT_EQ(kind_of(error<CommTimeout>("a")), ErrorKind::kComm);
  EXPECT_EQ(kind_of(error<CommMismatch>("a")), ErrorKind::kComm);
  EXPECT_EQ(kind_of(error<Deadlock>("a")), ErrorKind::kComm);
  EXPECT_EQ(kind_of(error<InternalError>("a")), ErrorKind::kOther);
  EXPECT_EQ(kind_of(error<std::runtime_error>("a")), ErrorKind::kOther);
  EXPECT_EQ(kind_of(std::make_exception_ptr(std::bad_alloc())), ErrorKind::kOther);
  EXPECT_EQ(kind_of(std::make_exception_ptr(42)), ErrorKind::kOther);
}

}  // namespace
}  // namespace ultra

namespace ultra::comm {
namespace {
TEST(Overlap, NeedsAnElementInCommon) {
  const Tensor tensor = Tensor::zeros(Device::cpu(), {10}, DType::kF32);
  const auto piece = [&](std::size_t begin, std::size_t end) {
    return tensor.slice(0, {begin, end});
  };
  EXPECT_TRUE(overlap(tensor, tensor));
  EXPECT_TRUE(overlap(tensor, piece(9, 10)));
  EXPECT_TRUE(overlap(piece(0, 5), piece(4, 6)));
  EXPECT_FALSE(overlap(piece(0, 5), piece(5, 10)));
  EXPECT_FALSE(overlap(piece(5, 10), piece(0, 5)));
  EXPECT_FALSE(overlap(piece(5, 5), tensor));
  EXPECT_FALSE(overlap(tensor, Tensor{}));
  EXPECT_FALSE(overlap(tensor, tensor.clone()));
}

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

TEST(RollCall, FindsAMemberThatIsOutOfStep) {
  OperationInfo later = sum_of(12);
  later.sequence = 8;
  EXPECT_EQ(complaint(later),
            "the members of 'dp' call different operations as their number 7: rank 2 calls "
            "all_reduce (sum of 12 f32) as number 8, ranks 0, 1, 3 call all_reduce (sum of 12 f32) "
            "as number 7. All must call the same operations in the same order, splits too.");
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
                              "ranks 0, 2, 5 call all_reduce (sum of 1 f32). All must call the "
                              "same operations in the same order."));
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

}  // namespace
}  // namespace ultra::comm
