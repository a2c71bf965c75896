! Trains a network to move each of five numbers by one place, the last to the first.
program rotate
    use shift
    implicit none
    type(shift_t) :: model
    real :: x(5, 1), y(5, 1), loss
    integer :: step

    call model%init(0)
    call model%load('shift.safetensors')
    do step = 1, 10000
        call random_number(x)
        y = cshift(x, -1)
        call model%step(1, x, y, loss)
        if (modulo(step, 2000) == 0) print '(a, i0, a, es9.2)', 'step ', step, ', loss ', loss
    end do
    x(:, 1) = [1, 2, 3, 4, 5]
    call model%predict(1, x, y)
    print '(a, 5f7.3)', 'shifted', y
    call model%save('shift.safetensors')
end program
