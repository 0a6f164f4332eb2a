/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer.hpp: that objects release what they hold whatever is thrown, that errors carry all that the library says, that types are
 * checked, and that moving works. What the library itself does is the business of the tests in C.
 *
 * Run in an empty folder, which it leaves empty; with a sanitizer that sees leaks, they are failures too.
 */
#include <coffer.hpp>

#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace
{

using namespace std::string_literals;
using cofferpp::slice;

int failures = 0;

void expect(bool holds, const char *what, int line)
{
    if (!holds) {
        std::fprintf(stderr, "test_hpp.cpp:%d: not so: %s\n", line, what);
        failures++;
    }
}

#define EXPECT(condition) expect((condition), #condition, __LINE__)

/* The error that a call throws; one with COFFER_OK when it throws none. */
template <class Call> cofferpp::error thrown_by(Call call)
{
    try {
        (void)call();
    } catch (const cofferpp::error &err) {
        return err;
    }
    return cofferpp::error(coffer_error{});
}

const std::vector<float> WEIGHTS = { 0, 1, 2, 3, 4, 5 };
const std::vector<std::int64_t> IDS = { -1, 7 };

cofferpp::header declare()
{
    cofferpp::header declared;
    declared.set_metadata("format", "pt");
    declared.set_metadata("author", "nobody");
    EXPECT(declared.add("w", COFFER_F32, { 2, 3 }) == 0);
    const std::vector<std::uint64_t> shape = { 2 };
    EXPECT(declared.add("ids", COFFER_I64, shape) == 1);
    EXPECT(declared.add("one", COFFER_BF16, {}) == 2);
    EXPECT(declared.size() == 3);
    return declared;
}

void write_all(cofferpp::writer &out)
{
    out.write(0, WEIGHTS);
    out.write(1, IDS);
    const unsigned char one[] = { 0x80, 0x3F };
    out.write(2, one);
    out.finish();
}

void write_file(const char *path)
{
    cofferpp::writer out(path, declare());
    write_all(out);
}

/* ---- What the types promise ---- */

template <class T> constexpr bool moves_only()
{
    return !std::is_copy_constructible_v<T> && !std::is_copy_assignable_v<T> &&
           std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T> &&
           std::is_nothrow_destructible_v<T>;
}

static_assert(moves_only<cofferpp::model>());
static_assert(moves_only<cofferpp::header>());
static_assert(moves_only<cofferpp::writer>());
static_assert(moves_only<cofferpp::buffer>());
static_assert(sizeof(cofferpp::model) == sizeof(coffer *), "an owner costs nothing");
static_assert(std::is_trivially_copyable_v<cofferpp::tensor>);
static_assert(std::is_nothrow_copy_constructible_v<cofferpp::error>, "an exception must be copied without another");
static_assert(std::is_base_of_v<std::runtime_error, cofferpp::error>);
static_assert(std::is_convertible_v<std::vector<float> &, cofferpp::span<float>>);
static_assert(std::is_convertible_v<const std::vector<float> &, cofferpp::span<const float>>);
static_assert(!std::is_convertible_v<const std::vector<float> &, cofferpp::span<float>>);
static_assert(!std::is_convertible_v<std::vector<float>, cofferpp::span<float>>);
static_assert(!std::is_convertible_v<std::vector<double> &, cofferpp::span<float>>);

template <class T, class = void> struct lends_tensors : std::false_type {
};
template <class T> struct lends_tensors<T, std::void_t<decltype(std::declval<T>().at("w"))>> : std::true_type {
};
static_assert(lends_tensors<cofferpp::model &>::value && lends_tensors<const cofferpp::model &>::value);
static_assert(!lends_tensors<cofferpp::model>::value, "of a model that is gone at once, nothing is lent");

/* ---- Reading ---- */

void test_look_up()
{
    const cofferpp::model model("m.safetensors");
    EXPECT(model.size() == 3 && !model.empty() && model.shard_count() == 1);
    const cofferpp::tensor w = model.at("w");
    EXPECT(w.name() == "w" && w.dtype() == COFFER_F32 && w.dtype_name() == "F32" && w.elements() == 6);
    EXPECT(w.size() == 24 && w.shape().size() == 2 && w.shape()[0] == 2 && w.shape()[1] == 3 && w.shard() == 0);
    EXPECT(w.offset() == coffer_find(model.get(), "w")->offset && w.get() == coffer_find(model.get(), "w"));
    EXPECT(model.find("w")->get() == w.get() && !model.find("none"));
    EXPECT(model.at("one").shape().empty());
    std::string names;
    for (const cofferpp::tensor each : model) {
        names += std::string(each.name()) + " ";
    }
    EXPECT(names == "ids w one ");
    EXPECT(model[0].name() == "ids" && model[2].name() == "one");
    EXPECT(model.metadata("format") == "pt" && !model.metadata("none"));
    EXPECT(model.metadata().size() == 2 && model.metadata()[0].first == "author" &&
           model.metadata()[0].second == "nobody");
    EXPECT(model.path() == "m.safetensors" && model.path(1).empty() && !model.index_metadata());
}

void test_an_index()
{
    static const char text[] = R"({"metadata": {"total_size": 0}, "weight_map": {"w": "m.safetensors"}})";
    std::FILE *file = std::fopen("m.index.json", "w");
    EXPECT(file != nullptr && std::fputs(text, file) >= 0 && std::fclose(file) == 0);
    const cofferpp::model model("m.index.json");
    EXPECT(model.index_metadata() == R"({"total_size": 0})" && model.path() == "m.safetensors");
    unlink("m.index.json");
}

void test_data()
{
    const cofferpp::model model("m.safetensors");
    const auto numbers = model.at("w").as<float>();
    EXPECT(std::vector<float>(numbers.begin(), numbers.end()) == WEIGHTS);
    EXPECT(static_cast<const void *>(numbers.data()) == coffer_data(model.get(), model.at("w").get(), nullptr));
    EXPECT(model.at("ids").as<std::int64_t>()[0] == -1);
    EXPECT(model.at("one").data()[1] == std::byte{ 0x3F } && model.at("one").as<char>().size() == 2);
    const auto wrong = thrown_by([&] { return model.at("w").as<std::int32_t>(); });
    EXPECT(wrong.code() == COFFER_ERR_ARGUMENT && "w"s == wrong.tensor() &&
           "the tensor holds F32, not I32"s == wrong.message());
    EXPECT(thrown_by([&] { return model.at("one").as<std::uint16_t>(); }).code() == COFFER_ERR_ARGUMENT);
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.access = COFFER_READ;
    const cofferpp::model unmapped("m.safetensors", &options);
    EXPECT(thrown_by([&] { return unmapped.at("w").data(); }).code() == COFFER_ERR_NOT_MAPPED);
}

void test_data_that_is_not_aligned()
{
    /* F32 behind one byte: legal, and at an odd place. */
    const std::string text = R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                             R"("f":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})";
    std::string file(8, '\0');
    file[0] = static_cast<char>(text.size());
    file += text + "\x09" + "\x00\x00\x80\x3F"s;
    const auto *bytes = reinterpret_cast<const std::byte *>(file.data());
    const cofferpp::model model(cofferpp::span<const std::byte>(bytes, file.size()));
    const auto unaligned = thrown_by([&] { return model.at("f").as<float>(); });
    EXPECT(unaligned.code() == COFFER_ERR_UNSUPPORTED && "f"s == unaligned.tensor());
    EXPECT(model.at("f").values<float>() == std::vector<float>{ 1 });
}

void test_reading()
{
    const cofferpp::model model("m.safetensors");
    const cofferpp::tensor w = model.at("w");
    EXPECT(w.values<float>() == WEIGHTS);
    const cofferpp::buffer whole = w.read();
    EXPECT(whole.size() == 24 && whole.as<float>()[5] == 5 && whole.end() - whole.begin() == 24);
    std::vector<std::byte> place(24);
    w.read(place);
    EXPECT(std::memcmp(place.data(), WEIGHTS.data(), 24) == 0);
    place.resize(23);
    const auto small = thrown_by([&] {
        w.read(place);
        return 0;
    });
    EXPECT(small.code() == COFFER_ERR_BUFFER_SIZE && small.expected() == 24 && small.actual() == 23);
    EXPECT(thrown_by([&] { return w.values<double>(); }).code() == COFFER_ERR_ARGUMENT);
    EXPECT(model.at("one").decode() == std::vector<double>{ 1 });
    EXPECT((model.at("ids").decode() == std::vector<double>{ -1, 7 }));

    std::int64_t ids[2] = {};
    float weights[6] = {};
    const coffer_read_target targets[] = { { w.get(), weights, sizeof weights },
                                           { model.at("ids").get(), ids, sizeof ids } };
    model.read(targets);
    EXPECT(weights[5] == 5 && ids[0] == -1 && ids[1] == 7);
}

int cancel(void *, std::uint64_t, std::uint64_t)
{
    return 1;
}

void test_options_arrive()
{
    const cofferpp::model model("m.safetensors");
    coffer_read_options options = COFFER_READ_OPTIONS_INIT;
    options.progress = cancel;
    EXPECT(thrown_by([&] { return model.at("w").read(&options); }).code() == COFFER_ERR_CANCELLED);
    coffer_open_options limited = COFFER_OPEN_OPTIONS_INIT;
    limited.max_header_size = 10;
    EXPECT(thrown_by([&] { return cofferpp::model("m.safetensors", &limited); }).code() == COFFER_ERR_HEADER_TOO_LARGE);
}

void test_slices()
{
    const cofferpp::model model("m.safetensors");
    const cofferpp::tensor w = model.at("w");
    EXPECT((w.values<float>(slice("1, :2")) == std::vector<float>{ 3, 4 }));
    EXPECT((w.values<float>(slice{ slice::at(1), slice::range(std::nullopt, 2) }) == std::vector<float>{ 3, 4 }));
    EXPECT((w.values<float>(slice{ slice::all(), slice::at(-1) }) == std::vector<float>{ 2, 5 }));
    EXPECT((w.values<float>(slice{ slice::ellipsis(), slice::range({}, {}, -2) }) == std::vector<float>{ 2, 0, 5, 3 }));
    EXPECT((w.shape_of(slice("1:, ::2")) == std::vector<std::uint64_t>{ 1, 2 }) && w.size_of(slice("1:, ::2")) == 8);
    EXPECT(w.shape_of(slice("0, 0")).empty() && w.decode(slice("0, 2")) == std::vector<double>{ 2 });
    EXPECT(w.read(slice("0, 3:")).size() == 0 && w.values<float>(slice("0, 3:")).empty());
    EXPECT(thrown_by([] { return slice("1, :x"); }).code() == COFFER_ERR_SLICE_SYNTAX);
    EXPECT(thrown_by([] { return slice("1, :x"); }).offset() == 4);
    EXPECT(thrown_by([&] { return w.read(slice{ slice::at(2) }); }).code() == COFFER_ERR_INDEX);
    EXPECT(slice("0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0").indices().size() == 20);
}

/* ---- Failing ---- */

void test_errors_carry_everything()
{
    const auto lost = thrown_by([] { return cofferpp::model("none.safetensors"); });
    EXPECT(lost.code() == COFFER_ERR_NOT_FOUND && "NOT_FOUND"s == lost.name() && lost.os_error() == ENOENT);
    EXPECT("none.safetensors"s == lost.path() && !lost.offset() && lost.http_status() == 0);
    EXPECT(lost.what() == "none.safetensors: "s + lost.message());
    const auto stops = thrown_by([] { return cofferpp::model(cofferpp::span<const std::byte>()); });
    EXPECT(stops.code() == COFFER_ERR_EMPTY && stops.what() == std::string(stops.message()));
    const cofferpp::model model("m.safetensors");
    const auto none = thrown_by([&] { return model.at("w\n"); });
    EXPECT(none.code() == COFFER_ERR_NO_TENSOR && R"(w\x0a)"s == none.tensor() && none.fields().code == none.code());
    EXPECT(thrown_by([&] { return model.metadata("format", 1); }).code() == COFFER_ERR_ARGUMENT);
    const cofferpp::error copy = none;
    EXPECT(copy.code() == none.code() && std::strcmp(copy.what(), none.what()) == 0);
}

void *no_alloc(void *, std::size_t)
{
    return nullptr;
}
void *no_realloc(void *, void *, std::size_t, std::size_t)
{
    return nullptr;
}
void no_free(void *, void *, std::size_t)
{
}

struct counted_source {
    std::vector<std::byte> bytes;
    int closed = 0;

    coffer_source source()
    {
        coffer_source made{};
        made.read_at = [](void *ctx, std::uint64_t offset, void *place, std::size_t size, coffer_error *) {
            const auto *self = static_cast<counted_source *>(ctx);
            std::memcpy(place, self->bytes.data() + offset, size);
            return COFFER_OK;
        };
        made.close = [](void *ctx) { static_cast<counted_source *>(ctx)->closed++; };
        made.ctx = this;
        made.size = bytes.size();
        return made;
    }
};

void test_a_constructor_that_throws_leaves_nothing()
{
    const coffer_allocator none = { no_alloc, no_realloc, no_free, nullptr };
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.allocator = &none;
    EXPECT(thrown_by([&] { return cofferpp::model("m.safetensors", &options); }).code() == COFFER_ERR_MEMORY);
    counted_source nonsense{ std::vector<std::byte>(16) };
    EXPECT(thrown_by([&] { return cofferpp::model(nonsense.source()); }).code() == COFFER_ERR_HEADER_LENGTH);
    EXPECT(nonsense.closed == 1);
    EXPECT(thrown_by([] { return cofferpp::writer("none/out.safetensors", declare()); }).code() ==
           COFFER_ERR_NOT_FOUND);
}

void test_other_sources()
{
    const int fd = open("m.safetensors", O_RDONLY);
    const cofferpp::model by_fd(fd);
    EXPECT(by_fd.at("w").values<float>() == WEIGHTS);
    counted_source own{ std::vector<std::byte>(coffer_shard_size(by_fd.get(), 0)) };
    EXPECT(pread(fd, own.bytes.data(), own.bytes.size(), 0) == static_cast<ssize_t>(own.bytes.size()));
    close(fd);
    {
        const cofferpp::model by_source(own.source());
        EXPECT(by_source.at("w").values<float>() == WEIGHTS && own.closed == 0);
    }
    EXPECT(own.closed == 1);
}

/* ---- Moving ---- */

void test_moving()
{
    write_file("other.safetensors");
    cofferpp::model model("m.safetensors");
    const cofferpp::tensor w = model.at("w");
    cofferpp::model moved(std::move(model));
    EXPECT(w.values<float>() == WEIGHTS && moved.at("w").get() == w.get());
    model = cofferpp::model("other.safetensors");
    moved = std::move(model);
    EXPECT(moved.at("ids").values<std::int64_t>() == IDS);
    cofferpp::buffer a(16);
    cofferpp::buffer b(std::move(a));
    EXPECT(b.size() == 16 && a.size() == 0 && a.data() == nullptr); // NOLINT: what it was moved from is empty
    b = cofferpp::buffer(32);
    EXPECT(b.size() == 32 && b.data() != nullptr);
    /* The writer that goes must go before its header does, and takes its file along. */
    cofferpp::writer first("first.safetensors", declare());
    cofferpp::writer second("second.safetensors", declare());
    first = std::move(second);
    write_all(first);
    EXPECT(access("first.safetensors", F_OK) != 0 && cofferpp::model("second.safetensors").size() == 3);
    unlink("other.safetensors");
    unlink("second.safetensors");
}

/* ---- Writing ---- */

void test_a_writer_that_is_left_publishes_nothing()
{
    const auto left = thrown_by([] {
        cofferpp::writer out("left.safetensors", declare());
        out.write(0, WEIGHTS);
        out.finish();
        return 0;
    });
    EXPECT(left.code() == COFFER_ERR_MISSING_DATA && access("left.safetensors", F_OK) != 0);
}

void test_what_a_writer_refuses()
{
    cofferpp::writer out("refused.safetensors", declare());
    const auto write = [&](std::size_t i, const auto &values, std::uint64_t offset) {
        return thrown_by([&] {
            out.write(i, values, offset);
            return 0;
        });
    };
    EXPECT(write(0, std::vector<double>{ 1 }, 0).code() == COFFER_ERR_ARGUMENT);
    EXPECT("the tensor holds F32, not F64"s == write(0, std::vector<double>{ 1 }, 0).message());
    EXPECT(write(1, std::vector<std::uint64_t>{ 1 }, 0).code() == COFFER_ERR_ARGUMENT);
    EXPECT(write(0, WEIGHTS, 4).code() == COFFER_ERR_WRITE_RANGE);
}

void test_writing_to_memory_and_in_pieces()
{
    cofferpp::header declared = declare();
    EXPECT(declared.at(0) == nullptr);
    coffer_header_options options = COFFER_HEADER_OPTIONS_INIT;
    options.alignment = 64;
    const std::size_t start = declared.build(&options).size();
    EXPECT(start % 64 == 0 && declared.at(1)->offset == start);
    std::vector<std::byte> memory(start + 24 + 16 + 2);
    cofferpp::writer out(cofferpp::span<std::byte>(memory), std::move(declared));
    EXPECT(out.declared().size() == 3);
    const cofferpp::span<const float> weights(WEIGHTS);
    out.write(0, weights.subspan(3, 3), 12);
    out.write(0, weights.subspan(0, 3));
    out.write(1, IDS);
    out.write(2, std::vector<std::byte>{ std::byte{ 0x80 }, std::byte{ 0x3F } });
    out.finish();
    EXPECT(cofferpp::model(memory).size() == 3);
    const cofferpp::model model(memory);
    EXPECT(model.at("w").values<float>() == WEIGHTS);
}

void test_what_a_header_refuses()
{
    cofferpp::header declared;
    EXPECT(thrown_by([&] { return declared.add("__metadata__", COFFER_U8, {}); }).code() == COFFER_ERR_NAME);
    EXPECT(thrown_by([&] { return declared.add("x", COFFER_F64, { UINT64_MAX }); }).code() == COFFER_ERR_OVERFLOW);
    declared.add("x", COFFER_U8, { 1 });
    declared.add("x", COFFER_U8, { 1 });
    EXPECT(thrown_by([&] { return declared.build(); }).code() == COFFER_ERR_DUPLICATE_NAME);
}

} // namespace

int main()
{
    write_file("m.safetensors");
    test_look_up();
    test_an_index();
    test_data();
    test_data_that_is_not_aligned();
    test_reading();
    test_options_arrive();
    test_slices();
    test_errors_carry_everything();
    test_a_constructor_that_throws_leaves_nothing();
    test_other_sources();
    test_moving();
    test_a_writer_that_is_left_publishes_nothing();
    test_what_a_writer_refuses();
    test_writing_to_memory_and_in_pieces();
    test_what_a_header_refuses();
    unlink("m.safetensors");
    std::printf("%d failures\n", failures);
    return failures == 0 ? 0 : 1;
}
