// Covers: common/comm/engine/operation.hpp, common/comm/comm_error.hpp, common/comm/traffic.hpp

#include "common/comm/engine/operation.hpp"

#include <set>

#include "common/base/interrupt.hpp"
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
