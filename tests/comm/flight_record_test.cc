#include "engine/comm/process/flight_record.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <thread>

namespace mtf {
namespace {

nlohmann::json recorded_collectives(const FlightRecord& record) {
  return nlohmann::json::parse(record.to_json()).at("collectives");
}

TEST(FlightRecord, TellsWhichCollectiveIsInHandAndWhomItWaitsFor) {
  FlightRecord record(10);
  EXPECT_FALSE(record.current());
  record.queued(1, "all_reduce w over data", 400);
  EXPECT_FALSE(record.current());
  record.begun(1);
  ASSERT_TRUE(record.current());
  EXPECT_EQ(record.current()->name, "all_reduce w over data");
  EXPECT_EQ(record.current()->bytes, 400);
  EXPECT_EQ(record.current()->waits_for, -1);
  record.waits(3);
  EXPECT_EQ(record.current()->waits_for, 3);
  EXPECT_GE(record.current()->waits_since, record.current()->begun);
  record.waits(-1);
  EXPECT_EQ(record.current()->waits_for, -1);
  record.ended(1);
  EXPECT_FALSE(record.current());
}

TEST(FlightRecord, KeepsTheLastCollectivesInOrder) {
  FlightRecord record(3);
  for (uint64_t sequence = 1; sequence <= 5; ++sequence) {
    record.queued(sequence, "gather " + std::to_string(sequence), 8);
    if (sequence > 4) continue;
    record.begun(sequence);
    if (sequence < 4) record.ended(sequence);
  }
  record.waits(2);
  const nlohmann::json entries = recorded_collectives(record);
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].at("name"), "gather 3");
  EXPECT_EQ(entries[0].at("state"), "done");
  EXPECT_LE(entries[0].at("queued"), entries[0].at("begun"));
  EXPECT_LE(entries[0].at("begun"), entries[0].at("ended"));
  EXPECT_EQ(entries[1].at("state"), "running");
  EXPECT_EQ(entries[1].at("waits_for"), 2);
  EXPECT_EQ(entries[2].at("sequence"), 5);
  EXPECT_EQ(entries[2].at("state"), "queued");
}

TEST(FlightRecord, NamesThatAreNoUtf8AreStillJson) {
  FlightRecord record(1);
  record.queued(1, "all_reduce \xff", 8);
  EXPECT_EQ(recorded_collectives(record).size(), 1u);
}

TEST(FlightRecord, ManyThreadsMayReadIt) {
  FlightRecord record(4);
  std::thread reader([&] {
    for (int i = 0; i < 200; ++i) recorded_collectives(record);
  });
  for (uint64_t sequence = 1; sequence <= 2000; ++sequence) {
    record.queued(sequence, "barrier", 0);
    record.begun(sequence);
    record.waits(1);
    record.ended(sequence);
  }
  reader.join();
  EXPECT_EQ(recorded_collectives(record).back().at("sequence"), 2000);
}

}  // namespace
}  // namespace mtf
