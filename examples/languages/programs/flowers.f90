program flowers
    use iris
    implicit none
    type(iris_t) :: model
    real :: rows(7, 150), loss
    integer :: unit, step

    open (newunit=unit, file='flowers.txt', action='read')
    read (unit, *) rows
    close (unit)
    call model%init(0)
    do step = 1, 300
        call model%step(150, rows(1:4, :), rows(5:7, :), loss)
    end do
    print '(a, f6.4)', 'loss ', loss
    call model%save('trained.safetensors')
end program
