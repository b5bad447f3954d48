// Covers: common/comm/engine/operation.hpp, common/comm/comm_error.hpp, common/comm/traffic.hpp
// Covers: common/comm/engine/tensor_bytes.hpp
// Covers: common/comm/engine/roll_call.hpp

#include "common/comm/engine/operation.hpp"

#include <gtest/gtest.h>

#include <set>

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

TEST(Operation, ItsLabelStandsBehindIt) {
  OperationInfo info{.kind = OpKind::kAllReduce, .communicator = "dp", .label = "bucket 2"};
  info.count = 5;
  EXPECT_EQ(to_string(info), "all_reduce #0 of 'dp' (sum of 5 f32) [bucket 2]");
  info.kind = OpKind::kBarrier;
  EXPECT_EQ(to_string(info), "barrier #0 of 'dp' [bucket 2]");
  EXPECT_EQ(call_text(info), "barrier [bucket 2]");
}

TEST(DivideAverage, DividesWhereThereIsAResult) {
  const Tensor data = test::filled(Device::cpu(), {3}, DType::kF64, 12.0);
  comm::CollectiveCall call{.info = {.kind = OpKind::kAllReduce, .dtype = DType::kF64},
                            .input = data,
                            .output = data,
                            .sent = {},
                            .received = {}};
  divide_average(call, 4, comm::host_memory());
  EXPECT_EQ(data.to_vector(), (std::vector<double>{12, 12, 12})) << "a sum";
  call.info.op = ReduceOp::kAverage;
  divide_average(call, 4, comm::host_memory());
  EXPECT_EQ(data.to_vector(), (std::vector<double>{3, 3, 3}));
  call.output = {};
  divide_average(call, 4, comm::host_memory());
  EXPECT_EQ(data.to_vector(), (std::vector<double>{3, 3, 3})) << "not the root of a reduce";
}

TEST(Operation, AsACallHasNoNumber) {
  OperationInfo info;
  info.kind = OpKind::kAllReduce;
  info.count = 5;
  info.dtype = DType::kI32;
  EXPECT_EQ(call_text(info), "all_reduce (sum of 5 i32)");
  info.kind = OpKind::kBarrier;
  EXPECT_EQ(call_text(info), "barrier");
}

TEST(Operation, KindsHaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  for (std::size_t kind = 0; kind < kOpKinds; ++kind) {
    names.insert(to_string(static_cast<OpKind>(kind)));
  }
  EXPECT_EQ(names.size(), kOpKinds);
}

TEST(Traffic, IsKeptByKind) {
  CommStats stats;
  stats[OpKind::kSend] = {.operations = 2, .sent_bytes = 30};
  stats[OpKind::kAllReduce].sent_bytes = 12;
  EXPECT_EQ(stats.sent_bytes(), 42U);
  const CommStats& read = stats;
  EXPECT_EQ(read[OpKind::kSend], (CommStats::PerKind{2, 30}));
  EXPECT_EQ(read[OpKind::kBroadcast], CommStats::PerKind{});
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

TEST(CommError, ARankThatFailedBecauseOfAnotherHasTheOthersKind) {
  for (const ErrorKind kind : {ErrorKind::kOther, ErrorKind::kBadInput, ErrorKind::kNotWritten,
                               ErrorKind::kInterrupted, ErrorKind::kComm}) {
    const RankFailed failed(3, kind, "rank 3 has failed");
    EXPECT_EQ(kind_of(std::make_exception_ptr(failed)), kind);
    EXPECT_EQ(failed.failed_rank(), 3);
    EXPECT_EQ(failed.kind(), kind);
  }
}

TEST(CommError, MessagesAreWhatWasThrown) {
  EXPECT_EQ(message_of(error<ConfigError>("no such rank")), "no such rank");
  EXPECT_EQ(message_of(error<std::logic_error>("plain")), "plain");
  EXPECT_EQ(message_of(std::make_exception_ptr(42)), "something that is not an exception");
}

}  // namespace
}  // namespace ultra

namespace ultra::comm {
namespace {
TEST(BytesOf, AreAllBytesOfATensor) {
  const Tensor tensor = Tensor::zeros(Device::cpu(), {3, 2}, DType::kF64);
  EXPECT_EQ(bytes_of(tensor).size(), 48U);
  EXPECT_EQ(bytes_of(tensor.slice(0, {1, 2})).size(), 16U);
  EXPECT_EQ(bytes_of(tensor.slice(0, {1, 2})).data(), bytes_of(tensor).data() + 16);
  EXPECT_EQ(bytes_of(Tensor::zeros(Device::cpu(), {5}, DType::kI32)).size(), 20U);
  EXPECT_TRUE(bytes_of(Tensor{}).empty());
}

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

}  // namespace
}  // namespace ultra::comm

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
